// A peer of js-libp2p that does what it is told: a command with its arguments in each line as JSON.
// NETWORK_KEY in the environment is the key of its private network, if it is in one.

import { createInterface } from 'node:readline'
import './polyfill.mjs'

const { createLibp2p } = await import('libp2p')
const { identify } = await import('@libp2p/identify')
const { kadDHT, passthroughMapper } = await import('@libp2p/kad-dht')
const { noise } = await import('@libp2p/noise')
const { peerIdFromString } = await import('@libp2p/peer-id')
const { ping } = await import('@libp2p/ping')
const { preSharedKey } = await import('@libp2p/pnet')
const { tcp } = await import('@libp2p/tcp')
const { yamux } = await import('@libp2p/yamux')
const { multiaddr } = await import('@multiformats/multiaddr')

const bytes = text => new TextEncoder().encode(text)
const key = process.env.NETWORK_KEY

const node = await createLibp2p({
  ...(key && { connectionProtector: preSharedKey({ psk: bytes(key) }) }),
  addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
  transports: [tcp()],
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: {
    identify: identify(),
    // js-libp2p pings on its own account too, to see whether a connection lives.
    ping: ping({ maxOutboundStreams: 8 }),
    dht: kadDHT({
      protocol: '/smartpubsub/kad/2.0.0',
      clientMode: false,
      peerInfoMapper: passthroughMapper, // Addresses of loopback are addresses too.
      validators: { test: async () => {} },
      selectors: { test: () => 0 }
    })
  }
})

const identified = new Map()
const waiting = new Map()
node.addEventListener('peer:identify', ({ detail }) => {
  const { agentVersion, protocols, listenAddrs, observedAddr } = detail
  const said = { agentVersion, protocols, addresses: listenAddrs.map(String), observed: String(observedAddr) }
  identified.set(detail.peerId.toString(), said)
  waiting.get(detail.peerId.toString())?.(said)
})

async function all (events, name) {
  const found = []
  for await (const event of events) {
    if (event.name === 'QUERY_ERROR') throw event.error
    if (event.name === name) found.push(event)
  }
  return found
}

const commands = {
  dial: async address => (await node.dial(multiaddr(address))).remotePeer.toString(),
  peers: async () => node.getPeers().map(String),
  identify: async id => identified.get(id) ?? new Promise(resolve => waiting.set(id, resolve)),
  ping: async address => node.services.ping.ping(multiaddr(address)),
  find: async id => {
    const [found] = await all(node.services.dht.findPeer(peerIdFromString(id)), 'FINAL_PEER')
    return found.peer.multiaddrs.map(String)
  },
  closest: async name => {
    const found = await all(node.services.dht.getClosestPeers(bytes(name)), 'FINAL_PEER')
    return found.map(event => event.peer.id.toString())
  },
  put: async (name, value) => {
    const answers = await all(node.services.dht.put(bytes(name), bytes(value)), 'PEER_RESPONSE')
    return answers.filter(event => event.messageName === 'PUT_VALUE').map(event => event.from.toString())
  },
  get: async name => {
    const values = await all(node.services.dht.get(bytes(name)), 'VALUE')
    return values.map(event => [event.from.toString(), new TextDecoder().decode(event.value)])
  }
}

const say = line => console.log(JSON.stringify(line))

say({ id: node.peerId.toString(), address: node.getMultiaddrs()[0].toString() })
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...given] = JSON.parse(line)
  try {
    say({ answer: await commands[name](...given) })
  } catch (error) {
    say({ error: String(error.stack) })
  }
}
await node.stop()
