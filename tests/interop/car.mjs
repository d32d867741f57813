// Reads a CAR file with IPLD's own libraries, and says what is in it: the roots, then every block.
import { createReadStream } from 'node:fs'
import { CarReader } from '@ipld/car'
import * as dagCbor from '@ipld/dag-cbor'
import { CID } from 'multiformats/cid'
import { sha256 } from 'multiformats/hashes/sha2'

const say = (what) => console.log(JSON.stringify(what))
const reader = await CarReader.fromIterable(createReadStream(process.argv.at(-1)))
say({ roots: (await reader.getRoots()).map(String) })
for await (const { cid, bytes } of reader.blocks()) {
  const value = dagCbor.decode(bytes)
  const again = CID.create(1, dagCbor.code, await sha256.digest(dagCbor.encode(value)))
  say({
    cid: cid.toString(),
    again: again.toString(),
    fields: Object.keys(value).sort(),
    name: value.name ?? null,
    parents: (value.parents ?? []).map(String),
    topic: value.topic ? value.topic.toString() : null,
    payload: value.payload instanceof Uint8Array ? Buffer.from(value.payload).toString() : null
  })
}
say({ end: true })
