// The messages, read from the declarations in docs/wire.md.

import { readFileSync } from 'node:fs'
import protobuf from 'protobufjs'

const DOCUMENT = readFileSync(new URL('../../docs/wire.md', import.meta.url), 'utf8')

function declared (heading) {
  const section = DOCUMENT.split(/^## /m).find(text => text.startsWith(`${heading}\n`))
  const blocks = [...section.matchAll(/^```proto\n(.*?)^```/gms)].map(match => match[1])
  return protobuf.parse(blocks.join('\n'), { keepCase: true }).root
}

// A message type with the two functions that libp2p's streams need.
function messages (root, name) {
  const type = root.lookupType(name)
  return {
    encode: said => type.encode(type.fromObject(said)).finish(),
    decode: data => type.toObject(type.decode(data), { defaults: true, longs: Number, oneofs: true })
  }
}

export const Content = messages(declared('Common definitions'), 'Content')
export const Kademlia = messages(declared('kad-dht'), 'Message')
export const Event = messages(declared('pubsub'), 'Message')
export const Bundle = messages(declared('ScoutSubs'), 'Bundle')

export const KADEMLIA = '/smartpubsub/kad/2.0.0'
export const SCOUTSUBS = '/smartpubsub/scoutsubs/5.0.0'
export const FIND_NODE = 4
export const TOPIC = 'smartpubsub'
export const MESSAGE_BYTES_MAX = 4 << 20
