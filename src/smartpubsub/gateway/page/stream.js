// Reads Server-Sent Events by fetch, because EventSource cannot send a token.
// Resumes after the last event until it is closed.

import { request } from "/page/requests.js";

export function openStream(path, { headers, onOpen, onEvent, onMark, onProblem }) {
  const abort = new AbortController();
  let after = null;

  async function read() {
    const sent = { ...headers(), ...(after === null ? {} : { "Last-Event-ID": after }) };
    const answer = await request(path, { headers: sent, signal: abort.signal });
    if (!answer.ok) {
      const problem = await answer.json().catch(() => ({ detail: answer.statusText }));
      throw Object.assign(new Error(problem.detail), { isFinal: answer.status < 500 });
    }
    onOpen();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      waiting += value;
      const frames = waiting.split("\n\n");
      waiting = frames.pop();
      for (const frame of frames) take(frame);
    }
  }

  function take(frame) {
    const fields = {};
    for (const line of frame.split("\n")) {
      const at = line.indexOf(": ");
      if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
    }
    if (fields.data === undefined) return;
    const data = JSON.parse(fields.data);
    if (fields.id !== undefined) after = fields.id;
    if (fields.event === undefined) onEvent(data);
    else onMark(fields.event, data);
  }

  async function run() {
    while (!abort.signal.aborted) {
      try {
        await read();
      } catch (error) {
        if (abort.signal.aborted) return;
        onProblem(error.message);
        if (error.isFinal) return;
      }
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }

  run();
  return () => abort.abort();
}
