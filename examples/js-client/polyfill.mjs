// libp2p needs a function that Node.js has from version 22 on.

Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new Promise((...both) => { [resolve, reject] = both })
  return { promise, resolve, reject }
}
