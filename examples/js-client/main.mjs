// node main.mjs ADDRESS sub PREDICATE      prints events until standard input ends
// node main.mjs ADDRESS pub EVENT PAYLOAD  publishes one
//
// ADDRESS is that of any node, as `smartpubsub node run` prints it. Every line is a JSON document.

import './polyfill.mjs'

const { Client, TooCloseError } = await import('./client.mjs')

const [address, command, predicate, payload = ''] = process.argv.slice(2)
const say = line => console.log(JSON.stringify(line))

async function subscribed () {
  const onEvent = ({ publisher, predicate, payload }) =>
    say({ event: predicate, payload: new TextDecoder().decode(payload), publisher })
  for (;;) {
    const client = await Client.start(address, onEvent)
    try {
      await client.subscribe(predicate)
      return client
    } catch (error) {
      await client.stop()
      if (!(error instanceof TooCloseError)) throw error
    }
  }
}

if (command === 'sub') {
  const client = await subscribed()
  say({ subscribed: predicate, id: client.id })
  process.stdin.resume().on('end', async () => { // The parent process has ended.
    await client.unsubscribe(predicate)
    await client.stop()
    say({ unsubscribed: predicate })
  })
} else if (command === 'pub') {
  const client = await Client.start(address)
  say({ published: await client.publish(predicate, new TextEncoder().encode(payload)) })
  await client.stop()
} else {
  console.error('usage: node main.mjs ADDRESS sub PREDICATE | pub EVENT [PAYLOAD]')
  process.exitCode = 2
}
