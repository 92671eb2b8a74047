// Cluster: who runs on which core and GPU. Small ones are elements that can be read and followed; large ones are drawn.

import { colours, fitted, h, say, shade } from "./dom.js";
import { count, many } from "./format.js";
import { empty } from "./table.js";
import { inOrder, slotsOf } from "./live.js";

const MOST_ELEMENTS = 600;
const LEGEND = 14;

export function clusterView({ live, view, go }) {
  const note = h("span", { class: "note" });
  const legend = h("ul", { class: "legend", "aria-label": "Functions that run, by slots" });
  const place = h("div");
  let map = null;
  let due = false;

  function draw() {
    due = false;
    const workers = inOrder(live);
    const slots = workers.reduce((sum, worker) => sum + worker.ids[0].length + worker.ids[1].length, 0);
    say(note, workers.length ? `${many(workers.length, "worker")}, ${many(slots, "slot")}` : "");
    const states = workers.map((worker) => ({ worker, kinds: [slotsOf(worker, 0), slotsOf(worker, 1)] }));
    drawLegend(legend, live, states);
    const Kind = !workers.length ? NoWorkers : slots <= MOST_ELEMENTS ? CardMap : CanvasMap;
    if (!(map instanceof Kind)) {
      map?.close();
      map = new Kind({ live, view, go });
      place.replaceChildren(map.node);
    }
    map.show(states);
  }

  function soon() {
    if (due) return;
    due = true;
    requestAnimationFrame(draw);
  }
  const theme = () => soon();
  live.addEventListener("slots", soon);
  live.addEventListener("figures", soon);
  window.addEventListener("theme", theme);
  window.addEventListener("resize", theme);
  soon();
  return {
    topic: "topic=slots",
    nodes: [h("div", { class: "head" }, h("h1", { text: "Cluster" }), note), legend, place],
    close() {
      live.removeEventListener("slots", soon);
      live.removeEventListener("figures", soon);
      window.removeEventListener("theme", theme);
      window.removeEventListener("resize", theme);
      map?.close();
    },
  };
}

function drawLegend(legend, live, states) {
  const held = new Map();
  let idle = 0;
  for (const { kinds } of states) {
    for (const slot of kinds.flat()) {
      if (slot) held.set(slot.fn, (held.get(slot.fn) ?? 0) + 1);
      else idle += 1;
    }
  }
  const order = [...held].sort((a, b) => b[1] - a[1]);
  const entries = order.slice(0, LEGEND).map(([fn, slots]) => entry(shade(fn), live.names[fn] ?? "", slots));
  if (order.length > LEGEND) entries.push(h("li", { text: `and ${order.length - LEGEND} more` }));
  if (states.length) entries.push(entry("", "idle", idle));
  legend.replaceChildren(...entries);
}

const entry = (shade_, name, slots) =>
  h("li", {}, h("span", { class: `swatch ${shade_}`, "aria-hidden": "true" }), h("b", { text: name, title: name }), count(slots));

/** What a slot is and has, in words. */
function inWords(live, worker, kind, at, slot) {
  const what = `${kind ? "GPU" : "core"} ${worker.ids[kind][at]} of ${worker.name}`;
  if (!slot) return `${what}: idle`;
  const shared = slot.more ? `, shared with ${many(slot.more, "job")}` : "";
  return `${what}: ${live.names[slot.fn] ?? ""}, job ${slot.job}${shared}`;
}

class NoWorkers {
  constructor({ live }) {
    this.live = live;
    this.node = h("div");
  }

  show() {
    const known = this.live.figures !== null;
    this.node.replaceChildren(
      known ? empty("No workers yet", "They appear when they join: grainlike worker start, or a pool.") : empty("Connecting", "The head is asked."),
    );
  }

  close() {}
}

class CardMap {
  constructor({ live }) {
    this.live = live;
    this.node = h("div", { class: "cards" });
    this.cards = new Map();
  }

  show(states) {
    const here = new Set(states.map(({ worker }) => worker.number));
    for (const [number, card] of this.cards) {
      if (!here.has(number)) {
        card.node.remove();
        this.cards.delete(number);
      }
    }
    for (const { worker, kinds } of states) {
      let card = this.cards.get(worker.number);
      if (!card) {
        card = this.#make(worker);
        this.cards.set(worker.number, card);
      }
      this.#fill(card, worker, kinds);
    }
    states.forEach(({ worker }, at) => {
      const { node } = this.cards.get(worker.number);
      if (this.node.children[at] !== node) this.node.insertBefore(node, this.node.children[at] ?? null);
    });
  }

  close() {}

  #make(worker) {
    const note = h("span", { class: "note" });
    const shut = h("p", { class: "shut", hidden: true });
    const rows = [h("div", { class: "slots" }), h("div", { class: "slots" })];
    const node = h("article", { class: "card" }, h("header", {}, h("h2", { text: worker.name, title: worker.name }), note), rows[0], shut);
    return { node, note, shut, rows, cells: [[], []], host: "" };
  }

  #fill(card, worker, kinds) {
    const busy = kinds[0].filter(Boolean).length;
    const gpus = worker.ids[1].length ? `, ${kinds[1].filter(Boolean).length}/${worker.ids[1].length} GPUs` : "";
    say(card.note, `${busy}/${worker.ids[0].length} cores${gpus}`);
    say(card.shut, worker.shut ? `gets no jobs: ${worker.shut}` : "");
    card.shut.hidden = !worker.shut;
    if (worker.ids[1].length && !card.rows[1].isConnected) card.rows[0].after(card.rows[1]);
    kinds.forEach((slots, kind) => {
      if (card.cells[kind].length !== slots.length) {
        card.cells[kind] = slots.map(() => h("a", { class: "slot" }));
        card.rows[kind].replaceChildren(...card.cells[kind]);
      }
      slots.forEach((slot, at) => this.#cell(card.cells[kind][at], inWords(this.live, worker, kind, at, slot), kind, slot));
    });
  }

  #cell(cell, text, kind, slot) {
    if (cell.title === text) return;
    cell.title = text;
    cell.className = `slot${kind ? " gpu" : ""}${slot ? ` ${shade(slot.fn)}` : ""}`;
    if (slot) {
      cell.href = `/job/${slot.job}`;
      cell.setAttribute("aria-label", text);
      cell.removeAttribute("role");
    } else {
      cell.removeAttribute("href");
      cell.setAttribute("role", "img");
      cell.setAttribute("aria-label", text);
    }
  }
}

const CELL = 11;
const GAP = 2;
const TITLE = 18;
const PAD = 10;
const BLOCK = 16 * (CELL + GAP) + PAD * 2;

/** All slots on one canvas of the view's height, which shows the part that is scrolled to. */
class CanvasMap {
  constructor({ live, view, go }) {
    this.live = live;
    this.view = view;
    this.go = go;
    this.states = [];
    this.at = null;
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "" });
    this.readout = h("div", { class: "readout", role: "status", text: "Point at a slot, or go to one with the arrow keys; Enter opens its job." });
    this.map = h("div", { class: "map" }, this.canvas);
    this.node = h("div", {}, this.map, this.readout);
    this.paint = () => this.#paint();
    view.addEventListener("scroll", this.paint, { passive: true });
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("click", () => this.#open());
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  close() {
    this.view.removeEventListener("scroll", this.paint);
  }

  show(states) {
    this.states = states.map(({ worker, kinds }) => ({ worker, slots: [...kinds[0].map((slot, at) => [0, at, slot]), ...kinds[1].map((slot, at) => [1, at, slot])] }));
    const busy = this.states.reduce((sum, { slots }) => sum + slots.filter(([, , slot]) => slot).length, 0);
    const all = this.states.reduce((sum, { slots }) => sum + slots.length, 0);
    const label = `${count(busy)} of ${count(all)} slots of ${many(states.length, "worker")} are in use; the workers' page lists them`;
    if (this.canvas.getAttribute("aria-label") !== label) this.canvas.setAttribute("aria-label", label);
    this.#paint();
    this.#tell();
  }

  #paint() {
    const width = this.map.clientWidth;
    if (!width) return;
    this.across = Math.max(1, Math.floor((width + PAD) / BLOCK));
    this.lines = [];
    let top = 0;
    for (let first = 0; first < this.states.length; first += this.across) {
      const rows = Math.max(...this.states.slice(first, first + this.across).map(({ slots }) => Math.ceil(slots.length / 16)), 1);
      const height = TITLE + rows * (CELL + GAP) + PAD * 2;
      this.lines.push({ first, top, height });
      top += height;
    }
    const seen = Math.min(top, this.view.clientHeight);
    this.map.style.height = `${top}px`;
    this.canvas.style.height = `${seen}px`;
    this.offset = Math.max(0, Math.min(this.view.scrollTop - (this.map.offsetTop - this.view.offsetTop), top - seen));
    const context = fitted(this.canvas, width, seen);
    const colour = colours();
    context.font = `600 11px ${colour.sans}`;
    for (const line of this.lines) {
      if (line.top + line.height < this.offset || line.top > this.offset + seen) continue;
      this.states.slice(line.first, line.first + this.across).forEach((state, at) => this.#block(context, colour, state, at * BLOCK, line.top - this.offset));
    }
  }

  #block(context, colour, { worker, slots }, left, top) {
    context.fillStyle = worker.shut ? colour.wait : colour["ink-2"];
    const busy = slots.filter(([, , slot]) => slot).length;
    context.fillText(shortened(context, `${worker.name}  ${busy}/${slots.length}`, BLOCK - PAD * 2), left, top + 12);
    slots.forEach(([, , slot], at) => {
      const x = left + (at % 16) * (CELL + GAP), y = top + TITLE + Math.floor(at / 16) * (CELL + GAP);
      context.fillStyle = slot ? colour[shade(slot.fn)] : colour.idle;
      context.fillRect(x, y, CELL, CELL);
      if (this.at && this.at[0] === worker.number && this.at[1] === at) {
        context.strokeStyle = colour.ink;
        context.lineWidth = 2;
        context.strokeRect(x - 1, y - 1, CELL + 2, CELL + 2);
      }
    });
  }

  #point(event) {
    const x = event.offsetX, y = event.offsetY + this.offset;
    const line = this.lines?.find(({ top, height }) => y >= top && y < top + height);
    const state = line && this.states[line.first + Math.floor(x / BLOCK)];
    const column = Math.floor((x % BLOCK) / (CELL + GAP)), row = line && Math.floor((y - line.top - TITLE) / (CELL + GAP));
    const at = row * 16 + column;
    if (!state || x / BLOCK >= this.across || column > 15 || row < 0 || at >= state.slots.length) return;
    this.#select(state.worker.number, at);
  }

  #select(number, at) {
    if (this.at && this.at[0] === number && this.at[1] === at) return;
    this.at = [number, at];
    this.#paint();
    this.#tell();
  }

  #found() {
    const index = this.at ? this.states.findIndex(({ worker }) => worker.number === this.at[0]) : -1;
    return index < 0 ? null : { index, state: this.states[index], slot: this.states[index].slots[this.at[1]] };
  }

  #tell() {
    const found = this.#found();
    if (!found?.slot) return;
    const [kind, at, slot] = found.slot;
    say(this.readout, inWords(this.live, found.state.worker, kind, at, slot));
  }

  #open() {
    const job = this.#found()?.slot?.[2]?.job;
    if (job) this.go(`/job/${job}`);
  }

  #key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 16, ArrowUp: -16 }[event.key];
    if (event.key === "Enter") this.#open();
    if (!step || !this.states.length) return;
    event.preventDefault();
    const found = this.#found();
    if (!found) {
      this.#select(this.states[0].worker.number, 0);
      return;
    }
    let { index } = found;
    let at = this.at[1] + step;
    if (at < 0 || at >= this.states[index].slots.length) {
      index = Math.max(0, Math.min(this.states.length - 1, index + (Math.abs(step) === 1 ? step : Math.sign(step) * this.across)));
      at = step === -1 ? this.states[index].slots.length - 1 : Math.min(step === 1 ? 0 : this.at[1] % 16, this.states[index].slots.length - 1);
    }
    this.#select(this.states[index].worker.number, at);
    const line = this.lines[Math.floor(index / this.across)];
    const top = this.map.offsetTop - this.view.offsetTop + line.top;
    if (top < this.view.scrollTop || top + line.height > this.view.scrollTop + this.view.clientHeight) this.view.scrollTop = top - 20;
  }
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}
