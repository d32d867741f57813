import { html, render, useEffect, useRef, useState } from "htm-preact";
import { makeGraph } from "/page/graph.js";
import { request } from "/page/requests.js";
import { openStream } from "/page/stream.js";

const SHOWN_MAX = 200;
const SECONDS = 60;
const TYPING_MS = 300;

const token = { text: sessionStorage.getItem("token") ?? "" };
const headers = () => (token.text ? { Authorization: `Bearer ${token.text}` } : {});

async function call(path, options = {}) {
  const answer = await request(path, { ...options, headers: { ...headers(), ...options.headers } });
  const content = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(content.detail), { status: answer.status });
  return content;
}

const query = (path, fields) => `${path}?${new URLSearchParams(fields)}`;
const peerOf = (event) => event.source.replace("/p2p/", "");

function App() {
  const [node, setNode] = useState(null);
  const [problem, setProblem] = useState("");
  const [neighbours, setNeighbours] = useState([]);
  const [events, setEvents] = useState([]);
  const [streams, setStreams] = useState([]);
  const counts = useRef([]);
  const graph = useRef(null);

  useEffect(() => {
    const load = async () => {
      try {
        const found = await call("/v1/node");
        setNode(found);
        setNeighbours(await call("/v1/neighbours"));
        setProblem("");
      } catch (error) {
        setProblem(error.status === 401 ? "token" : error.message);
      }
    };
    load();
    const timer = setInterval(load, 2000);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (!node) return;
    const own = { id: node.peer_id, label: "this node", colour: "--accent", size: 11, hasLabel: true };
    const peers = neighbours.map(({ peer_id }) => ({ id: peer_id, label: peer_id.slice(-8) }));
    const links = neighbours.map(({ peer_id, is_served }) => ({
      source: node.peer_id,
      target: peer_id,
      isServed: is_served,
    }));
    graph.current?.show([own, ...peers], links);
  }, [node?.peer_id, neighbours.map((n) => n.peer_id + n.is_served).join()]);

  const onEvent = (filter) => (event) => {
    const latency = Math.max(0, Date.now() - Date.parse(event.time));
    counts.current.push({ at: Date.now(), latency, filter });
    // A stream that resumes at a node that was started again repeats events.
    const isSame = (shown) => shown.id === event.id && shown.filter === filter;
    setEvents((before) =>
      before.some(isSame) ? before : [{ ...event, filter, latency }, ...before].slice(0, SHOWN_MAX),
    );
    graph.current?.travel(peerOf(event), node?.peer_id);
  };
  const subscribe = (filter) => {
    const update = (change) =>
      setStreams((before) => before.map((s) => (s.filter === filter ? { ...s, ...change } : s)));
    const close = openStream(query("/v1/events", { filter }), {
      headers,
      onOpen: () => update({ state: "live" }),
      onEvent: onEvent(filter),
      onMark: (kind, data) => update({ state: kind === "end-of-stored" ? "live" : data.reason }),
      onProblem: (text) => update({ state: text }),
    });
    setStreams((before) => [...before, { filter, close, state: "connecting" }]);
  };
  const unsubscribe = (stream) => {
    stream.close();
    setStreams((before) => before.filter((other) => other !== stream));
  };

  if (problem === "token") return html`<${Token} />`;
  return html`
    <header>
      <h1>SmartPubSub</h1>
      ${node && html`<span>${node.protocol}</span>
        <code title=${node.peer_id}>${node.peer_id.slice(0, 8)}…${node.peer_id.slice(-6)}</code>
        <span>${node.peers} ${node.peers === 1 ? "peer" : "peers"}</span>`}
      <span role="status" class=${problem ? "bad" : "good"}>${problem || "running"}</span>
    </header>
    <main>
      <${Publish} />
      <${Subscribe} streams=${streams} counts=${counts} open=${subscribe} close=${unsubscribe} />
      <${Network} graph=${graph} neighbours=${neighbours} />
      <${Charts} counts=${counts} />
      <${Events} events=${events} />
      <${Subscriptions} />
      <${Topics} />
    </main>`;
}

function Token() {
  const save = (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", event.target.elements.token.value);
    location.reload();
  };
  return html`<main><section>
    <h2>This node asks for a token</h2>
    <form onSubmit=${save}>
      <label>Token, from: smartpubsub token create NAME --scope read
        <input name="token" type="password" required /></label>
      <button>Use it</button>
    </form></section></main>`;
}

function Publish() {
  const [told, setTold] = useState(null);
  const publish = async (event) => {
    event.preventDefault();
    const { predicate, payload } = event.target.elements;
    setTold({ text: "waiting for the acknowledgement" });
    try {
      const path = query("/v1/events", { predicate: predicate.value });
      const receipt = await call(path, { method: "POST", body: payload.value });
      const kept = receipt.replicas === null ? "" : `, ${receipt.replicas} of ${receipt.replicas_wanted} replicas`;
      setTold({ text: `published ${receipt.id}${kept}`, kind: "good" });
    } catch (error) {
      setTold({ text: error.message, kind: "bad" });
    }
  };
  return html`<section aria-labelledby="publish">
    <h2 id="publish">Publish</h2>
    <form onSubmit=${publish}>
      <label>Event<input name="predicate" placeholder="surf/price=15" required /></label>
      <label>Payload<input name="payload" placeholder="clean waves" /></label>
      <button>Publish</button>
    </form>
    <p role="status" class=${told?.kind ?? "faint"}>${told?.text ?? "An event names what it is about."}</p>
  </section>`;
}

function Subscribe({ streams, counts, open, close }) {
  const [filter, setFilter] = useState("");
  const [sample, setSample] = useState("");
  const [problem, setProblem] = useState("");
  const [verdict, setVerdict] = useState(null);
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (!filter) return setProblem("");
    const timer = setTimeout(() => {
      call(query("/v1/explain", { filter, event: sample || "x" }))
        .then((found) => (setProblem(""), setVerdict(sample ? found : null)))
        .catch((error) => setProblem(error.message));
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [filter, sample]);
  const rate = (wanted) =>
    counts.current.filter((c) => c.filter === wanted && c.at > Date.now() - 10_000).length / 10;
  const submit = (event) => {
    event.preventDefault();
    if (!problem && filter && !streams.some((s) => s.filter === filter)) open(filter);
  };
  return html`<section aria-labelledby="subscribe">
    <h2 id="subscribe">Subscribe</h2>
    <form onSubmit=${submit}>
      <label>Filter
        <input name="filter" placeholder="surf/price[10,20]" value=${filter}
          onInput=${(e) => setFilter(e.target.value)} aria-invalid=${Boolean(problem)} required /></label>
      <label>Try it on an event
        <input name="sample" placeholder="surf/price=25" value=${sample}
          onInput=${(e) => setSample(e.target.value)} /></label>
      <button>Subscribe</button>
    </form>
    <p role="status" class=${problem ? "bad" : "faint"}>${problem || verdictText(verdict)}</p>
    ${streams.length > 0 && html`<table>
      <thead><tr><th>Filter</th><th>State</th><th>Matches/s</th><th></th></tr></thead>
      <tbody>${streams.map((stream) => html`<tr key=${stream.filter}>
        <td><code>${stream.filter}</code></td><td>${stream.state}</td>
        <td>${rate(stream.filter).toFixed(1)}</td>
        <td><button class="plain" onClick=${() => close(stream)}
          aria-label=${`Unsubscribe from ${stream.filter}`}>End</button></td></tr>`)}</tbody>
    </table>`}
  </section>`;
}

function verdictText(verdict) {
  if (!verdict) return "A filter lists the topics and ranges that an event must have.";
  const failed = verdict.attributes.filter((a) => !a.met);
  if (!failed.length) return "This event matches.";
  return failed
    .map((a) => `no match: wants ${a.wanted}, event has ${a.got ?? "no such attribute"}`)
    .join("; ");
}

function Network({ graph, neighbours }) {
  const canvas = useRef(null);
  const [hovered, setHovered] = useState(null);
  useEffect(() => {
    graph.current = makeGraph(canvas.current, setHovered);
  }, []);
  return html`<section aria-labelledby="network">
    <h2 id="network">Neighbourhood</h2>
    <canvas ref=${canvas} role="img" aria-label=${`This node and ${neighbours.length} peers`}></canvas>
    <p class="faint">${hovered ? html`<code>${hovered.id}</code>` : "A thick line is a peer that this node sends events to."}</p>
    <details><summary>${neighbours.length} peers as a list</summary>
      <ul>${neighbours.map((n) => html`<li><code>${n.address}</code>${n.is_served ? " (gets events from here)" : ""}</li>`)}</ul>
    </details>
  </section>`;
}

function Charts({ counts }) {
  const place = useRef(null);
  useEffect(() => {
    const axis = { stroke: "gray", grid: { stroke: "#8884" } };
    const options = (title, label) => ({
      title,
      width: place.current.clientWidth,
      height: 150,
      cursor: { show: false },
      legend: { show: false },
      series: [{}, { label, stroke: "#2f81f7", width: 2, points: { show: true, size: 5 } }],
      axes: [axis, axis],
      scales: { y: { range: (_chart, _low, high) => [0, Math.max(1, high * 1.1)] } },
    });
    const rates = new uPlot(options("Events per second", "events/s"), [[], []], place.current);
    const latencies = new uPlot(options("Median latency, ms", "ms"), [[], []], place.current);
    const timer = setInterval(() => {
      const now = Math.floor(Date.now() / 1000);
      counts.current = counts.current.filter((c) => c.at > (now - SECONDS) * 1000);
      const times = Array.from({ length: SECONDS }, (_, i) => now - SECONDS + i);
      const within = times.map((t) => counts.current.filter((c) => Math.floor(c.at / 1000) === t));
      rates.setData([times, within.map((all) => all.length)]);
      latencies.setData([times, within.map(median)]);
    }, 1000);
    return () => clearInterval(timer);
  }, []);
  return html`<section aria-labelledby="rates">
    <h2 id="rates">The last minute on this page</h2><div ref=${place}></div></section>`;
}

function median(items) {
  const sorted = items.map((item) => item.latency).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
}

function Events({ events }) {
  const [why, setWhy] = useState({});
  const explain = async (event) => {
    const asked = { filter: event.filter, event: event.predicate };
    const found = await call(query("/v1/explain", asked));
    const why = await call(query("/v1/why", { ...asked, event: event.id }));
    const met = found.attributes.map((a) => `${a.wanted} by ${a.got}`).join(", ");
    setWhy((before) => ({ ...before, [event.id]: `matches ${met}; ${why.detail}` }));
  };
  return html`<section class="wide" aria-labelledby="events">
    <h2 id="events">Events</h2>
    <div class="events" role="log" aria-label="Events as they come" tabindex="0"><table>
      <thead><tr><th>Published</th><th>Event</th><th>Payload</th><th>Publisher</th><th>ms</th><th></th></tr></thead>
      <tbody>${events.map((event) => html`<tr key=${event.filter + event.id}>
        <td>${new Date(event.time).toLocaleTimeString()}</td>
        <td><code>${event.predicate}</code></td>
        <td>${event.data ?? `${event.data_base64.length} characters of base 64`}</td>
        <td><code>…${peerOf(event).slice(-8)}</code></td>
        <td>${event.latency}</td>
        <td>${why[event.id] ?? html`<button class="plain" onClick=${() => explain(event)}>Why?</button>`}</td>
      </tr>`)}</tbody>
    </table></div>
    ${!events.length && html`<p class="faint">Subscribe to see events here.</p>`}
  </section>`;
}

function Subscriptions() {
  const [all, setAll] = useState([]);
  useEffect(() => {
    const load = () => call("/v1/subscriptions").then(setAll).catch(() => {});
    load();
    const timer = setInterval(load, 2000);
    return () => clearInterval(timer);
  }, []);
  return html`<section class="wide" aria-labelledby="subscriptions">
    <h2 id="subscriptions">Subscriptions of this node</h2>
    ${all.length ? html`<table>
      <thead><tr><th>Number</th><th>Filter</th><th>State</th><th>Kept on disk</th><th>Waiting</th><th>Dropped</th></tr></thead>
      <tbody>${all.map((s) => html`<tr><td>${s.subscription}</td><td><code>${s.predicate}</code></td>
        <td>${s.state}</td><td>${s.is_kept ? "yes" : "no"}</td><td>${s.waiting}</td><td>${s.dropped}</td></tr>`)}</tbody>
    </table>` : html`<p class="faint">None.</p>`}
  </section>`;
}

function Topics() {
  const [topics, setTopics] = useState([]);
  const [shown, setShown] = useState(null);
  const [history, setHistory] = useState(null);
  useEffect(() => {
    const load = () => call("/v1/topics").then(setTopics).catch(() => {});
    load();
    const timer = setInterval(load, 2000);
    return () => clearInterval(timer);
  }, []);
  const show = async (topic) => {
    setShown(topic.name);
    setHistory(await call(query(`/v1/topics/${topic.topic}/history`, { last: 50 })));
  };
  return html`<section class="wide" aria-labelledby="topics">
    <h2 id="topics">Topics</h2>
    <p>${topics.map((t) => html`<button class="plain" onClick=${() => show(t)}>${t.name}</button> `)}</p>
    ${!topics.length && html`<p class="faint">None.</p>`}
    ${history?.events.length === 0 && html`<p class="faint">${shown} has no events.</p>`}
    ${history?.events.length > 0 && html`<h3>${shown}: the last ${history.events.length} events</h3><${Dag} events=${history.events} />`}
  </section>`;
}

function Dag({ events }) {
  const rows = new Map();
  const places = new Map();
  const lowest = Math.min(...events.map((e) => e.height));
  for (const event of events) {
    const row = rows.get(event.height) ?? 0;
    rows.set(event.height, row + 1);
    places.set(event.id, { x: 30 + (event.height - lowest) * 70, y: 30 + row * 45, event });
  }
  const all = [...places.values()];
  const width = 60 + Math.max(...all.map((p) => p.x));
  const height = 40 + Math.max(...all.map((p) => p.y));
  const links = all.flatMap((to) =>
    to.event.parents.split(" ").map((id) => places.get(id)).filter(Boolean).map((from) => ({ from, to })));
  return html`<svg width=${width} height=${height} role="img" aria-label="Events and the events that they link to">
    ${links.map(({ from, to }) => html`<line x1=${from.x} y1=${from.y} x2=${to.x} y2=${to.y} stroke="gray" />`)}
    ${all.map(({ x, y, event }) => html`<g><circle cx=${x} cy=${y} r="9" fill="var(--accent)"><title>${event.id}</title></circle>
      <text x=${x} y=${y + 22} text-anchor="middle" font-size="11" fill="var(--text)">${(event.data ?? "").slice(0, 10)}</text></g>`)}
  </svg>`;
}

render(html`<${App} />`, document.body);
