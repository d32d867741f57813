// Nodes on a canvas, their links, and events that travel along them.

import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";

const TRAVEL_MS = 900;

export function makeGraph(canvas, describe) {
  const context = canvas.getContext("2d");
  const travels = [];
  let nodes = [];
  let links = [];
  let hovered = null;
  let frame = 0;
  const link = forceLink([]).id((node) => node.id).distance(90);
  const simulation = forceSimulation([])
    .force("link", link)
    .force("charge", forceManyBody().strength(-160))
    .force("collide", forceCollide(16))
    .on("tick", draw);

  // A canvas does not understand light-dark(), but computed colours are resolved.
  function colour(name) {
    canvas.style.color = `var(${name})`;
    return getComputedStyle(canvas).color;
  }

  function fit() {
    const scale = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    simulation.force("x", forceX(canvas.clientWidth / 2).strength(0.05));
    simulation.force("y", forceY(canvas.clientHeight / 2).strength(0.09));
    simulation.alpha(0.5).restart();
  }

  function draw() {
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    for (const { source, target, isServed, isMarked } of links) {
      context.strokeStyle = colour(isMarked ? "--good" : "--line");
      context.lineWidth = isServed ? 3 : 1;
      context.beginPath();
      context.moveTo(source.x, source.y);
      context.lineTo(target.x, target.y);
      context.stroke();
    }
    for (const node of nodes) {
      context.beginPath();
      context.arc(node.x, node.y, node.size ?? 7, 0, 2 * Math.PI);
      context.fillStyle = colour(node.colour ?? "--faint");
      context.fill();
      if (node.hasLabel || node === hovered) {
        context.fillStyle = colour("--text");
        context.fillText(node.label, node.x + (node.size ?? 7) + 3, node.y + 4);
      }
    }
    drawTravels();
  }

  function drawTravels() {
    const now = performance.now();
    context.fillStyle = colour("--good");
    for (const { from, to, began } of travels) {
      const part = (now - began) / TRAVEL_MS;
      context.beginPath();
      const x = from.x + (to.x - from.x) * part;
      const y = from.y + (to.y - from.y) * part;
      context.arc(x, y, 5, 0, 2 * Math.PI);
      context.fill();
    }
    while (travels.length && now - travels[0].began > TRAVEL_MS) travels.shift();
    if (travels.length && !frame) {
      frame = requestAnimationFrame(() => {
        frame = 0;
        draw();
      });
    }
  }

  canvas.addEventListener("pointermove", (event) => {
    const at = canvas.getBoundingClientRect();
    const x = event.clientX - at.left;
    const y = event.clientY - at.top;
    hovered = nodes.find((node) => Math.hypot(node.x - x, node.y - y) < 12) ?? null;
    describe(hovered);
    draw();
  });
  new ResizeObserver(fit).observe(canvas);

  return {
    // Nodes have an id and a label, and maybe a colour, a size and hasLabel; links isServed.
    show(wanted, pairs) {
      const known = new Map(nodes.map((node) => [node.id, node]));
      nodes = wanted.map((node) => Object.assign(known.get(node.id) ?? {}, node));
      const isNew = nodes.length !== known.size || pairs.length !== links.length;
      links = pairs.map((pair) => ({ ...pair }));
      simulation.nodes(nodes).force("charge").strength(nodes.length < 20 ? -500 : -160);
      link.links(links);
      if (isNew) simulation.alpha(0.4).restart();
      else draw();
    },
    travel(publisher, receiver) {
      const from = nodes.find((node) => node.id === publisher);
      const to = nodes.find((node) => node.id === receiver);
      if (from && to && from !== to) travels.push({ from, to, began: performance.now() });
      draw();
    },
  };
}
