"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const n = data.tokens.length, ROW = 24, FAINT = 0.05, AVERAGE = -1;
const bytes = Uint8Array.from(atob(data.weights), (c) => c.charCodeAt(0));
const element = (id) => document.getElementById(id);
const state = { layer: 0, head: AVERAGE, pinned: null, hovered: null };

// The weights of a head, or the mean of a layer's heads: [query * n + key], from 0 to 1.
function weightsOf(layer, head) {
  const some = head === AVERAGE ? [...Array(data.heads).keys()] : [head];
  const found = new Float32Array(n * n);
  for (const one of some) {
    const start = (layer * data.heads + one) * n * n;
    for (let i = 0; i < n * n; i++) found[i] += bytes[start + i] / 255 / some.length;
  }
  return found;
}
let weights = weightsOf(state.layer, state.head);

function made(tag, parent, values = {}) {
  const one = Object.assign(document.createElement(tag), values);
  parent.append(one);
  return one;
}

// One stop for the Tab key in each group; the arrow keys move inside it.
function roving(group, across, along) {
  const buttons = [...group.querySelectorAll("button")];
  buttons.forEach((button, i) => { button.tabIndex = i ? -1 : 0; });
  const steps = { ArrowRight: along, ArrowLeft: -along, ArrowDown: across, ArrowUp: -across };
  group.addEventListener("keydown", (event) => {
    const from = buttons.indexOf(document.activeElement);
    const to = event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1 : from + steps[event.key];
    if (from < 0 || !buttons[to]) return;
    event.preventDefault();
    buttons[from].tabIndex = -1;
    buttons[to].tabIndex = 0;
    buttons[to].focus();
  });
}

function tokens(group, side) {
  data.tokens.forEach((token, place) => {
    const button = made("button", group, { type: "button", className: "token", title: token });
    made("span", button, { textContent: token });
    const here = () => ({ side: side || element("side").value, place });
    let pressedWhenPinned = false;
    button.addEventListener("pointerdown", () => { pressedWhenPinned = state.pinned !== null && same(state.pinned, here()); });
    button.addEventListener("focus", () => choose({ pinned: here() }));
    button.addEventListener("click", () => choose({ pinned: pressedWhenPinned ? null : here(), hovered: null }));
    button.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") choose({ hovered: here() }); });
  });
  group.addEventListener("pointerleave", () => choose({ hovered: null }));
  roving(group, 1, 1);
}
const same = (one, other) => one.side === other.side && one.place === other.place;

function choose(changes) {
  Object.assign(state, changes);
  if ("layer" in changes || "head" in changes) weights = weightsOf(state.layer, state.head);
  show();
}

// What the chosen token gives or gets, by place; null where none is chosen.
function row(chosen) {
  if (chosen === null) return null;
  return data.tokens.map((_, other) => (chosen.side === "from" ? weights[chosen.place * n + other] : weights[other * n + chosen.place]));
}

function show() {
  const chosen = state.hovered || state.pinned, shares = row(chosen);
  element("layer").value = state.layer;
  element("head").value = state.head;
  const opposite = chosen && (chosen.side === "from" ? "to" : "from");
  light(element("from"), chosen, opposite === "from" ? shares : null, chosen && chosen.side === "from");
  light(element("to"), chosen, opposite === "to" ? shares : null, chosen && chosen.side === "to");
  light(element("shades"), chosen, shares, chosen !== null);
  if (!element("lines").hidden) draw(chosen, shares);
  say(chosen, shares);
  document.querySelectorAll("#grid button").forEach((button) => {
    button.setAttribute("aria-pressed", +button.dataset.layer === state.layer && +button.dataset.head === state.head);
  });
}

function light(group, chosen, shares, holds) {
  [...group.children].forEach((button, place) => {
    const share = shares ? shares[place] : 0;
    button.classList.toggle("chosen", holds && chosen.place === place);
    button.classList.toggle("lit", share >= 0.005);
    button.style.setProperty("--w", Math.sqrt(share).toFixed(3));
    if (button.lastChild.tagName === "SMALL") button.lastChild.remove();
    if (share >= 0.01) made("small", button, { textContent: Math.round(100 * share) + "%" });
  });
}

function draw(chosen, shares) {
  const drawing = element("drawing"), lines = [], deepest = chosen ? Math.max(...shares) : 1;
  const line = (from, to, share) => {
    if (share < FAINT && !(chosen && share >= 0.005)) return;
    const one = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const ends = { x1: 0, y1: (from + 0.5) * ROW, x2: 100, y2: (to + 0.5) * ROW, "stroke-opacity": Math.max(share / deepest, 0.08).toFixed(3) };
    for (const [name, value] of Object.entries(ends)) one.setAttribute(name, value);
    lines.push(one);
  };
  drawing.setAttribute("viewBox", `0 0 100 ${n * ROW}`);
  drawing.style.height = n * ROW + "px";
  if (chosen) shares.forEach((share, other) => (chosen.side === "from" ? line(chosen.place, other, share) : line(other, chosen.place, share)));
  else weights.forEach((share, i) => line(Math.floor(i / n), i % n, share));
  drawing.replaceChildren(...lines);
}

function say(chosen, shares) {
  const head = state.head === AVERAGE ? "the mean of all heads" : `head ${state.head}`;
  const where = `Layer ${state.layer + 1}, ${head}`;
  if (!chosen) { element("selection").textContent = `${where}: no token is selected; lines are drawn from ${100 * FAINT}%.`; return; }
  const order = shares.map((share, place) => [share, place]).filter(([share]) => share >= 0.005).sort((a, b) => b[0] - a[0]).slice(0, 5);
  const named = order.map(([share, place]) => `${data.tokens[place]} (${place}) ${Math.round(100 * share)}%`).join(", ");
  const verb = chosen.side === "from" ? "attends to" : "is attended to by";
  element("selection").textContent = `${where}: ${data.tokens[chosen.place]} (${chosen.place}) ${verb} ${named || "no token in particular"}.`;
}

function grid() {
  const all = element("grid"), columns = [AVERAGE, ...Array(data.heads).keys()];
  all.style.gridTemplateColumns = `repeat(${columns.length + 1}, max-content)`;
  made("span", all);
  for (const head of columns) made("span", all, { className: "name", textContent: head === AVERAGE ? "mean" : head });
  for (let layer = 0; layer < data.layers; layer++) {
    made("span", all, { className: "name", textContent: `layer ${layer + 1}` });
    for (const head of columns) {
      const label = `layer ${layer + 1}, ${head === AVERAGE ? "mean of all heads" : `head ${head}`}`;
      const button = made("button", all, { type: "button", title: label });
      button.setAttribute("aria-label", label);
      Object.assign(button.dataset, { layer, head });
      made("canvas", button, { width: n, height: n });
      button.addEventListener("click", () => choose({ layer, head }));
    }
  }
  roving(all, columns.length, 1);
  paint();
}

// Every map in the colour of the page, the greatest weight of each map deepest.
function paint() {
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  document.querySelectorAll("#grid button").forEach((button) => {
    const found = weightsOf(+button.dataset.layer, +button.dataset.head), greatest = found.reduce((a, b) => Math.max(a, b), 1e-9);
    const image = new ImageData(n, n);
    found.forEach((share, i) => image.data.set([red, green, blue, 255 * Math.sqrt(share / greatest)], 4 * i));
    button.firstChild.getContext("2d").putImageData(image, 0, 0);
  });
}

for (let layer = 0; layer < data.layers; layer++) made("option", element("layer"), { value: layer, textContent: layer + 1 });
made("option", element("head"), { value: AVERAGE, textContent: "mean of all" });
for (let head = 0; head < data.heads; head++) made("option", element("head"), { value: head, textContent: head });
element("layer").addEventListener("change", (event) => choose({ layer: +event.target.value }));
element("head").addEventListener("change", (event) => choose({ head: +event.target.value }));
const turn = () => choose({ pinned: state.pinned && { ...state.pinned, side: element("side").value } });
element("side").addEventListener("change", turn);
element("view").addEventListener("change", (event) => {
  for (const view of ["lines", "shades"]) element(view).hidden = view !== event.target.value;
  element("sides").hidden = event.target.value !== "shades";
  turn();
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") choose({ pinned: null, hovered: null }); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
tokens(element("from"), "from");
tokens(element("to"), "to");
tokens(element("shades"), null);
element("explorer").hidden = false;
grid();
show();
