// A client of ScoutSubs outside of the overlay: it relays and keeps nothing for
// other nodes. docs/wire.md describes it under "A client".

import { createHash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { generateKeyPair } from '@libp2p/crypto/keys'
import { identify } from '@libp2p/identify'
import { noise } from '@libp2p/noise'
import { peerIdFromString } from '@libp2p/peer-id'
import { tcp } from '@libp2p/tcp'
import { lpStream } from '@libp2p/utils'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import { base58btc } from 'multiformats/bases/base58'
import * as wire from './wire.mjs'

const TRIES_MAX = 3
const PARENTS_MAX = 5
const PATIENCE_MS = 1_000
const RENEW_MS = 10 * 60_000
const SEEN_MAX = 100_000
const SIGNATURE_BYTES = 64
const HASH_BYTES = 16

const utf8 = new TextEncoder()
const sha256 = data => BigInt(`0x${createHash('sha256').update(data).digest('hex')}`)
const idText = bytes => base58btc.baseEncode(bytes)
const idBytes = id => id.toMultihash().bytes

// The names of a predicate's attributes, decoded.
export function attributesOf (predicate) {
  return predicate.split('/').map(part => decodeURIComponent(part.split(/[=[]/)[0]))
}

// Filters go only to peers that are closer to the attribute, and there is none.
export class TooCloseError extends Error {}

export class Client {
  #node
  #key
  #incarnation = Math.floor(Date.now() / 1000)
  #lastNumber = 0
  #lastOf = new Map() // The number of the last event of each attribute.
  #roots = new Map() // The peer that admitted an event of each attribute.
  #trees = new Map() // By attribute: the filters, their version, and the parent.
  #streams = new Map()
  #waiting = new Map() // The calls that wait for answers of peers.
  #seen = new Set()
  #renewing

  // Called with each error after which the client tries again.
  onProblem = () => {}

  // Join a network through the node at an address; the function gets the events.
  static async start (address, onEvent = () => {}, listen = '/ip4/127.0.0.1/tcp/0') {
    const client = new Client()
    client.onEvent = onEvent
    client.#key = await generateKeyPair('Ed25519')
    client.#node = await createLibp2p({
      privateKey: client.#key,
      addresses: { listen: [listen] },
      transports: [tcp()],
      connectionEncrypters: [noise()],
      streamMuxers: [yamux()],
      services: { identify: identify() }
    })
    await client.#node.handle(wire.SCOUTSUBS, (stream, connection) => client.#hear(stream, connection))
    client.#node.addEventListener('peer:disconnect', ({ detail }) => client.#leave(detail.toString()))
    await client.#node.dial(multiaddr(address))
    client.#renewing = setInterval(() => client.#renew(() => true), RENEW_MS)
    return client
  }

  get id () { return this.#node.peerId.toString() }

  async stop () {
    clearInterval(this.#renewing)
    this.#trees.clear()
    await this.#node.stop()
  }

  // --- subscribing ---

  async subscribe (predicate) {
    const attributes = attributesOf(predicate)
    const attribute = attributes.reduce((a, b) => sha256(a) < sha256(b) ? a : b)
    const tree = this.#trees.get(attribute) ?? { attribute, filters: [], version: 0 }
    this.#trees.set(attribute, tree)
    tree.filters.push(predicate)
    tree.version++
    await this.#announce(tree)
  }

  async unsubscribe (predicate) {
    for (const tree of this.#trees.values()) {
      if (tree.filters.includes(predicate)) {
        tree.filters = tree.filters.filter(filter => filter !== predicate)
        tree.version++
        await this.#announce(tree)
      }
    }
  }

  // Announce the filters of an attribute, to the peer that accepts them.
  async #announce (tree) {
    const distance = id => sha256(idBytes(peerIdFromString(id))) ^ sha256(tree.attribute)
    const isThere = answer => answer.go_to || answer.in_force >= tree.version
    for (let parents = 0; parents < PARENTS_MAX; parents++) {
      tree.parent ??= await this.#closestTo(tree.attribute)
      if (distance(this.id) <= distance(tree.parent)) {
        throw new TooCloseError(`this client is too close to ${tree.attribute}; take another key`)
      }
      const answered = `announced ${tree.attribute} ${tree.parent}`
      const { announce } = this.#announcement(tree)
      const answer = await this.#ask(tree.parent, { announce }, answered, isThere)
      if (answer && !answer.go_to) return
      tree.parent = answer ? await this.#meet(answer.go_to) : undefined
    }
    throw new Error(`no peer accepts the filters of ${tree.attribute}`)
  }

  #announcement ({ attribute, version, filters }) {
    return { announce: { attribute, incarnation: this.#incarnation, version, added: filters } }
  }

  #renew (isDue) {
    for (const tree of this.#trees.values()) {
      if (isDue(tree)) this.#announce(tree).catch(error => this.onProblem(error))
    }
  }

  #leave (peer) {
    this.#streams.delete(peer)
    for (const [attribute, root] of this.#roots) if (root === peer) this.#roots.delete(attribute)
    this.#renew(tree => tree.parent === peer)
  }

  // --- publishing ---

  async publish (predicate, payload = new Uint8Array()) {
    const number = ++this.#lastNumber
    const event = await this.#signed(predicate, payload, number)
    const raised = [...new Set(attributesOf(predicate))].map(async attribute => {
      const previous = this.#lastOf.get(attribute) ?? 0
      this.#lastOf.set(attribute, number)
      const raised = { event, attribute, previous, hops: 1 }
      for (let roots = 0; roots < PARENTS_MAX; roots++) {
        const root = this.#roots.get(attribute) ?? await this.#closestTo(attribute)
        const answer = await this.#ask(root, { raised }, `admitted ${attribute} ${number}`)
        if (answer?.refusal) throw new Error(`${predicate} was refused: ${answer.refusal}`)
        if (answer) return this.#roots.set(attribute, answer.by)
        this.#roots.delete(attribute)
        raised.is_retry = true
      }
      throw new Error(`no rendezvous accepts events of ${attribute}`)
    })
    await Promise.all(raised)
    return `${this.id}/${this.#incarnation}/${number}`
  }

  async #signed (predicate, payload, number) {
    const seqno = Buffer.alloc(8)
    seqno.writeUInt32BE(this.#incarnation, 0)
    seqno.writeUInt32BE(number, 4)
    const data = wire.Content.encode({ predicate, payload, created_us: Date.now() * 1000 })
    const message = { from: idBytes(this.#node.peerId), data, seqno, topic: wire.TOPIC }
    return wire.Event.encode({ ...message, signature: await this.#key.sign(signedBytes(message)) })
  }

  // --- receiving ---

  async #hear (stream, connection) {
    const frames = lpStream(stream, { maxDataLength: wire.MESSAGE_BYTES_MAX })
    for (;;) {
      const frame = await frames.read().catch(() => null)
      if (frame === null) return
      const { parts } = wire.Bundle.decode(frame.subarray())
      let lastEvent
      for (const part of parts ?? []) {
        const said = part[part.part]
        // A part without an event is about the event of an earlier part.
        if (said?.event && !said.event.length) said.event = lastEvent
        lastEvent = said?.event ?? lastEvent
        if (!await this.#isEvident(connection.remotePeer, part)) continue
        await this.#take(connection.remotePeer.toString(), part).catch(error => this.onProblem(error))
      }
    }
  }

  // Whether a peer has signed its claim to keep an event.
  async #isEvident (peer, said) {
    if (said.part !== 'admitted' || said.admitted.refusal) return true
    const { id, attribute, evidence, more } = said.admitted
    return hasSigned(peer, heldBytes(id, attribute, more), evidence)
  }

  async #take (peer, said) {
    const part = said[said.part]
    switch (said.part) {
      case 'notify': return this.#notify(peer, part)
      case 'announced': return this.#answered(`announced ${part.attribute} ${peer}`, part)
      case 'admitted': return this.#admitted(peer, part)
      case 'probe': return this.#say(peer, { alive: { number: part.number, incarnation: this.#incarnation } })
      case 'adopt': return this.#adopt(peer, part)
    }
  }

  // One answer may be about several events.
  #admitted (peer, part) {
    for (let number = part.id.number; number <= part.id.number + part.more; number++) {
      this.#answered(`admitted ${part.attribute} ${number}`, { ...part, by: peer })
    }
  }

  async #notify (peer, { event, attribute, on_behalf }) {
    const message = wire.Event.decode(event)
    const publisher = peerIdFromString(idText(message.from))
    if (!await isSigned(publisher, message)) return
    const seqno = Buffer.from(message.seqno)
    const id = { publisher: message.from, incarnation: seqno.readUInt32BE(0), number: seqno.readUInt32BE(4) }
    const key = `${publisher} ${seqno.toString('hex')} ${attribute}`
    if (!this.#seen.has(key)) {
      this.#seen.add(key)
      if (this.#seen.size > SEEN_MAX) this.#seen.delete(this.#seen.values().next().value)
      const { predicate, payload } = wire.Content.decode(message.data)
      this.onEvent({ publisher: publisher.toString(), predicate, payload })
    }
    const confirm = on_behalf.length ? { id, attribute, on_behalf } : { id, attribute }
    await this.#say(peer, { confirm })
  }

  #adopt (peer, { attribute, instead_of }) {
    const tree = this.#trees.get(attribute)
    if (tree && idText(instead_of) === tree.parent) {
      tree.parent = peer
      this.#renew(renewed => renewed === tree)
    }
  }

  // --- sending ---

  async #say (peer, part) {
    let { stream, frames } = this.#streams.get(peer) ?? {}
    if (stream?.status !== 'open') {
      stream = await this.#node.dialProtocol(peerIdFromString(peer), wire.SCOUTSUBS)
      frames = lpStream(stream)
      this.#streams.set(peer, { stream, frames })
    }
    await frames.write(wire.Bundle.encode({ parts: [part] }))
  }

  // The answer; none if it does not come after several tries.
  async #ask (peer, part, key, isThere = () => true) {
    const { promise, resolve } = Promise.withResolvers()
    this.#waiting.set(key, answer => isThere(answer) && resolve(answer))
    try {
      for (let tries = 0; tries < TRIES_MAX; tries++) {
        await this.#say(peer, part)
        const answer = await Promise.race([promise, setTimeout(PATIENCE_MS)])
        if (answer) return answer
      }
    } catch (error) {
      this.onProblem(error) // The peer cannot be reached.
    } finally {
      this.#waiting.delete(key)
    }
  }

  #answered (key, answer) { this.#waiting.get(key)?.(answer) }

  // --- lookups ---

  // The peer closest to a name: ask the closest peer not asked yet, until there is none.
  async #closestTo (name) {
    const target = sha256(name)
    const connected = this.#node.getPeers().map(id => [id.toString(), sha256(idBytes(id)) ^ target])
    const distances = new Map(connected)
    const asked = new Set()
    for (;;) {
      const closest = [...distances].sort(([, a], [, b]) => a < b ? -1 : 1).slice(0, 20)
      const next = closest.map(([peer]) => peer).find(peer => !asked.has(peer))
      if (next === undefined && closest.length === 0) throw new Error('no node is connected')
      if (next === undefined) return closest[0][0]
      asked.add(next)
      try {
        for (const peer of await this.#findNode(next, name)) {
          const text = idText(peer.id)
          if (text !== this.id && !distances.has(text)) {
            await this.#meet(peer)
            distances.set(text, sha256(peer.id) ^ target)
          }
        }
      } catch {
        distances.delete(next) // The peer cannot be reached, or is a client too.
      }
    }
  }

  async #findNode (peer, name) {
    const stream = await this.#node.dialProtocol(peerIdFromString(peer), wire.KADEMLIA)
    const frames = lpStream(stream, { maxDataLength: wire.MESSAGE_BYTES_MAX })
    await frames.write(wire.Kademlia.encode({ type: wire.FIND_NODE, key: utf8.encode(name) }))
    const answer = wire.Kademlia.decode((await frames.read()).subarray())
    await stream.close()
    return answer.closerPeers
  }

  // Remember the addresses of a peer, so that libp2p can dial it by its id.
  async #meet (peer) {
    const id = peerIdFromString(idText(peer.id))
    await this.#node.peerStore.merge(id, { multiaddrs: peer.addrs.map(address => multiaddr(address)) })
    return id.toString()
  }
}

function signedBytes ({ from, data, seqno, topic }) {
  const message = wire.Event.encode({ from, data, seqno, topic })
  return Buffer.concat([utf8.encode('libp2p-pubsub:'), message])
}

// Whether a publisher has signed an event, alone or together with other events.
async function isSigned (publisher, message) {
  const { signature } = message
  if (signature.length > SIGNATURE_BYTES) return hasSigned(publisher, signedBytes(message), signature)
  return publisher.publicKey.verify(signedBytes(message), signature)
}

// Whether a peer has signed a statement, alone or together with others.
async function hasSigned (peer, statement, evidence) {
  const signed = Buffer.concat([utf8.encode('smartpubsub-evidence:'), rootOf(statement, evidence)])
  return peer.publicKey.verify(signed, evidence.subarray(0, SIGNATURE_BYTES))
}

// The statement that a node keeps an event, and so many after it.
function heldBytes ({ publisher, incarnation, number }, attribute, more) {
  const sequence = Buffer.alloc(more ? 12 : 8)
  sequence.writeUInt32BE(incarnation, 0)
  sequence.writeUInt32BE(number, 4)
  if (more) sequence.writeUInt32BE(more, 8)
  const length = Buffer.from([publisher.length]) // A varint of one byte, as ids of peers are short.
  const said = utf8.encode(more ? 'smartpubsub-all-held:' : 'smartpubsub-held:')
  return Buffer.concat([said, length, publisher, sequence, utf8.encode(attribute)])
}

// The root of the hash tree that evidence for a statement leads to.
function rootOf (statement, evidence) {
  let node = treeHash(0, statement)
  for (let at = SIGNATURE_BYTES; at < evidence.length; at += 1 + HASH_BYTES) {
    const beside = evidence.subarray(at + 1, at + 1 + HASH_BYTES)
    node = evidence[at] === 0 ? treeHash(1, beside, node) : treeHash(1, node, beside)
  }
  return node
}

function treeHash (kind, ...content) {
  return createHash('sha256').update(Buffer.concat([Buffer.from([kind]), ...content])).digest().subarray(0, HASH_BYTES)
}
