// A whole network: nodes, the paths that events take, and events on their way.

import { html, render, useEffect, useRef, useState } from "htm-preact";
import { makeGraph } from "/page/graph.js";
import { request } from "/page/requests.js";

const POLL_MS = 400;
const LATE_US = 3_000_000;
const LINKS_PER_NODE_MAX = 4;
const SPEEDS = [1, 0.1, 0.02];

async function call(path, options = {}) {
  const answer = await request(path, options);
  if (!answer.ok) throw new Error((await answer.json()).detail);
  return answer.status === 202 ? null : answer.json();
}

function App() {
  const [network, setNetwork] = useState(null);
  const [problem, setProblem] = useState("");
  const [speed, setSpeed] = useState(null);
  const [hovered, setHovered] = useState(null);
  const [killed, setKilled] = useState("");
  const [chosen, setChosen] = useState(null);
  const canvas = useRef(null);
  const graph = useRef(null);
  const play = useRef({ moves: [], at_us: null, told: 0 });

  useEffect(() => {
    let next = 0;
    let isOn = true;
    const load = async () => {
      try {
        const found = await call(`/v1/network?after=${next}`);
        next = found.next;
        play.current.moves.push(...found.moves);
        play.current.now_us = found.now_us;
        play.current.isLive = found.is_live && !found.is_over;
        setNetwork(found);
        setSpeed((before) => before ?? (found.is_live ? 1 : 0.02));
        setProblem("");
      } catch (error) {
        setProblem(error.message);
      }
      if (isOn) setTimeout(load, POLL_MS);
    };
    load();
    return () => (isOn = false);
  }, []);
  useEffect(() => {
    if (!network) return;
    graph.current ??= makeGraph(canvas.current, setHovered);
    const path = play.current.moves.filter((move) => move.event === chosen);
    const links = chosen
      ? path.map(({ from, to }) => ({ source: from, target: to, isServed: true, isMarked: true }))
      : busiest(network);
    graph.current.show(network.nodes.map(drawn), links);
  }, [network, chosen]);
  useEffect(() => {
    let frame;
    let before = performance.now();
    const step = (now) => {
      advance(play.current, (now - before) * 1000 * (speed ?? 1), (move) => graph.current?.travel(move.from, move.to));
      before = now;
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [speed]);

  if (!network) return html`<main><section><p role="status">${problem || "loading"}</p></section></main>`;
  const up = network.nodes.filter((n) => n.is_up).length;
  const kill = async (node) => {
    try {
      await call(`/v1/network/${node}/kill`, { method: "POST" });
      setKilled(`the process of node ${node} is killed; watch how delivery goes on`);
    } catch (error) {
      setKilled(error.message);
    }
  };
  return html`
    <header>
      <h1>SmartPubSub</h1><span>${network.title}</span>
      <span>${up} of ${network.nodes.length} nodes up</span>
      <span role="status" class=${problem ? "bad" : "good"}>${problem || (network.is_over ? "the run is over" : "running")}</span>
      <label class="beside">Speed <select value=${speed} onChange=${(e) => setSpeed(Number(e.target.value))}>
        ${SPEEDS.map((s) => html`<option value=${s}>${s === 1 ? "as it is" : `1/${Math.round(1 / s)}`}</option>`)}</select></label>
      <button class="plain" onClick=${() => restart(play.current)}>Again from the start</button>
    </header>
    <main>
      <section class="wide" aria-labelledby="network">
        <h2 id="network">Network</h2>
        <canvas class="tall" ref=${canvas} role="img" aria-label=${`${network.nodes.length} nodes and the paths of events`}></canvas>
        <p class="faint">${hovered ? about(hovered.node) : "A large node passes many events on. A thick line carries many. A node in colour subscribes, a red one is down. Choose an event to see its tree."}</p>
      </section>
      <section aria-labelledby="nodes"><h2 id="nodes">Nodes</h2>
        <p role="status" class="faint">${killed}</p>
        <div class="events" tabindex="0"><table>
        <thead><tr><th>Node</th><th>State</th><th>Wants</th><th>Published</th><th>Delivered</th><th>Passed on</th><th></th></tr></thead>
        <tbody>${network.nodes.map((n) => html`<tr key=${n.node}><td>${n.node}</td>
          <td class=${n.is_up ? "good" : "bad"}>${n.is_up ? "up" : "down"}</td>
          <td><code>${n.wants.slice(0, 3).join(", ")}${n.wants.length > 3 ? ` and ${n.wants.length - 3} more` : ""}</code>
            ${n.groups.map((g) => html` owns <code>${g}</code>`)}</td>
          <td>${n.published}</td><td>${n.delivered}</td><td>${n.relayed}</td>
          <td>${network.can_kill && n.is_up && html`<button class="plain" onClick=${() => kill(n.node)}
            aria-label=${`Kill node ${n.node}`}>Kill</button>`}</td></tr>`)}</tbody></table></div>
      </section>
      <section aria-labelledby="events"><h2 id="events">Events</h2>
        <div class="events" role="log" aria-label="The newest events" tabindex="0"><table>
        <thead><tr><th>At, s</th><th>Event</th><th>From</th><th>Deliveries</th><th>Until, ms</th></tr></thead>
        <tbody>${network.events.map((e) => html`<tr key=${e.id}><td>${(e.at_us / 1e6).toFixed(2)}</td>
          <td><button class="link" aria-pressed=${e.id === chosen}
            onClick=${() => setChosen(e.id === chosen ? null : e.id)}><code>${e.text}</code></button></td><td>${e.publisher}</td><td>${e.delivered}</td>
          <td>${e.delivered ? ((e.last_us - e.at_us) / 1000).toFixed(0) : ""}</td></tr>`)}</tbody></table></div>
      </section>
    </main>`;
}

const about = (n) =>
  `node ${n.node}: ${n.is_up ? "up" : "down"}, ${n.delivered} delivered, ${n.relayed} passed on; wants ${n.wants.join(", ") || "nothing"}`;

const drawn = (n) => ({
  id: n.node,
  label: String(n.node),
  node: n,
  hasLabel: true,
  size: 6 + Math.min(10, Math.sqrt(n.relayed)),
  colour: !n.is_up ? "--bad" : n.wants.length ? "--accent" : "--faint",
});

// Large networks have more paths than can be seen.
function busiest({ nodes, links }) {
  const most = links.sort((a, b) => b[2] - a[2]).slice(0, nodes.length * LINKS_PER_NODE_MAX);
  const usual = most.length ? most[Math.floor(most.length / 4)][2] : 0;
  return most.map(([source, target, count]) => ({ source, target, isServed: count > usual }));
}

function advance(play, us, show) {
  const first = play.moves[play.told];
  if (!first) return;
  play.at_us ??= first.at_us;
  play.at_us += us;
  if (play.isLive && play.now_us - play.at_us > LATE_US) play.at_us = play.now_us - LATE_US / 3;
  // Nothing happens in a pause, so the page does not wait for its end.
  if (first.at_us - play.at_us > LATE_US) play.at_us = first.at_us;
  while (play.told < play.moves.length && play.moves[play.told].at_us <= play.at_us) show(play.moves[play.told++]);
}

function restart(play) {
  play.told = 0;
  play.at_us = null;
}

render(html`<${App} />`, document.body);
