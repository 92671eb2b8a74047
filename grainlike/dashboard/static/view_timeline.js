// Timeline: a lane for each core and GPU, and on it who had it when; from the history and from what runs.

import { colours, fitted, h, say, shade } from "./dom.js";
import { count, moment, seconds, words } from "./format.js";
import { again, ask } from "./live.js";

const LANE = 18;
const AXIS = 26;
const LEAST_BAD = 6;
const WEDGE = 8;
const MOST_BARS = 20_000;
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400];
const LEGEND = 12;
const SPANS = [[60, "1 min"], [600, "10 min"], [3600, "1 h"]];

export function timelineView({ live, go }) {
  const note = h("span", { class: "note", role: "status" });
  const readout = h("div", { class: "readout", role: "status", text: "Drag to move, wheel or + and − to zoom, arrow keys to go along; a click on a bar opens its job." });
  const legend = h("ul", { class: "legend", "aria-label": "Functions by colour" });
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Timeline of jobs by core" });
  const box = h("div", { class: "timeline-box" }, canvas);
  const chart = new Chart(canvas, box, readout, go);
  const spans = SPANS.map(([span, title]) => h("button", { type: "button", text: title, onclick: () => chart.last(span) }));
  const tools = h(
    "div",
    { class: "filters" },
    h("div", { class: "segments", role: "group", "aria-label": "Show the last" }, ...spans, h("button", { type: "button", text: "All", onclick: () => chart.last(null) })),
    h("button", { type: "button", text: "+", "aria-label": "Zoom in", onclick: () => chart.zoom(0.5) }),
    h("button", { type: "button", text: "−", "aria-label": "Zoom out", onclick: () => chart.zoom(2) }),
    h("a", { class: "button", href: "/api/trace.json", download: "grainlike-trace.json", text: "Download trace" }),
    h("a", { class: "button", href: "https://ui.perfetto.dev/", target: "_blank", rel: "noopener noreferrer", text: "Open Perfetto" }),
  );

  async function load() {
    const { found, size } = await ask(`/api/timeline?most=${chart.since ? 1000 : 5000}&since=${chart.since}`).catch(() => ({}));
    if (!found) return 0;
    chart.take(found);
    say(note, chart.bars.length || chart.running.length ? `${count(chart.bars.length)} attempts that ended, ${count(chart.running.length)} that run${chart.gap ? "; too many to show all" : ""}` : "Nothing has run yet");
    showLegend(legend, chart.names);
    return size;
  }
  const stop = again(load);
  const theme = () => chart.paint();
  window.addEventListener("theme", theme);
  window.addEventListener("resize", theme);
  return {
    nodes: [h("div", { class: "head" }, h("h1", { text: "Timeline" }), note, tools), legend, h("div", { class: "timeline" }, box), readout],
    close() {
      stop();
      chart.close();
      window.removeEventListener("theme", theme);
      window.removeEventListener("resize", theme);
    },
  };
}

function showLegend(legend, names) {
  if (legend.childElementCount === Math.min(names.size, LEGEND) + 1) return;
  const shown = [...names].slice(0, LEGEND);
  const entry = (look, text) => h("li", {}, h("span", { class: `swatch ${look}`, "aria-hidden": "true" }), h("b", { text }));
  legend.replaceChildren(...shown.map(([name, number]) => entry(shade(number), name)), entry("failed-mark", "failed: hatched, with a mark on top"));
}

class Chart {
  constructor(canvas, box, readout, go) {
    Object.assign(this, { canvas, box, readout, go });
    this.bars = [];
    this.running = [];
    this.seen = new Set();
    this.names = new Map();
    this.lanes = new Map();
    this.since = 0;
    this.gap = false;
    this.span = null;
    this.end = null;
    this.now = 0;
    this.top = 0;
    this.chosen = null;
    this.over = false;
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.#grab(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#drop(event));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    const tick = () => {
      if (this.over) return;
      if (!document.hidden && this.end === null && this.running.length) this.paint();
      this.timer = setTimeout(tick, 500);
    };
    tick();
  }

  close() {
    this.over = true;
    clearTimeout(this.timer);
  }

  take(found) {
    this.now = found.at;
    this.at = performance.now();
    this.gap ||= found.more;
    const bars = found.bars.map(([worker, name, cores, gpus, ago, ran, outcome, job, attempt]) => ({
      worker: found.workers[worker], fn: name, name: found.names[name], cores, gpus, began: found.at - ago, ended: found.at - ago + ran, outcome: outcome < 0 ? "running" : found.outcomes[outcome], job, key: `${job}:${attempt}`,
    }));
    this.running = bars.filter((bar) => bar.outcome === "running");
    for (const bar of bars) {
      if (bar.outcome === "running" || this.seen.has(bar.key)) continue;
      this.seen.add(bar.key);
      this.bars.push(bar);
      this.since = Math.max(this.since, bar.ended);
    }
    this.bars.sort((a, b) => a.ended - b.ended);
    for (const old of this.bars.splice(0, Math.max(0, this.bars.length - MOST_BARS))) this.seen.delete(old.key);
    this.#lay();
    this.paint();
  }

  /** Give each core and GPU that had a job a lane, by worker. */
  #lay() {
    const known = new Map();
    for (const bar of [...this.bars, ...this.running]) {
      this.names.set(bar.name, bar.fn);
      const lanes = known.get(bar.worker) ?? known.set(bar.worker, new Map()).get(bar.worker);
      bar.keys = [...slots(bar.cores, "core"), ...slots(bar.gpus, "GPU")];
      if (!bar.keys.length) bar.keys = ["no slots"];
      for (const key of bar.keys) lanes.set(key, key);
    }
    this.lanes = new Map();
    for (const worker of [...known.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }))) {
      for (const key of [...known.get(worker).keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }))) this.lanes.set(`${worker}\n${key}`, this.lanes.size);
    }
  }

  #bounds() {
    const now = this.now + (this.at ? (performance.now() - this.at) / 1000 : 0);
    const end = this.end ?? now;
    const first = this.bars.length ? this.bars.reduce((least, bar) => Math.min(least, bar.began), Infinity) : Math.min(now - 10, ...this.running.map((bar) => bar.began));
    const span = this.span ?? Math.max(1, (end - first) * 1.02);
    return { now, end, span, began: end - span };
  }

  get gutter() {
    return this.box.clientWidth < 600 ? 76 : 132;
  }

  paint() {
    const width = this.box.clientWidth, height = this.box.clientHeight;
    if (!width || !height) return;
    const context = fitted(this.canvas, width, height), colour = colours();
    const { now, end, span, began } = this.#bounds();
    const left = this.gutter, scale = (width - left) / span;
    this.top = Math.max(0, Math.min(this.top, this.lanes.size * LANE - (height - AXIS)));
    context.font = `11px ${colour.sans}`;
    this.#axis(context, colour, { width, height, left, scale, began, end });
    context.save();
    context.beginPath();
    context.rect(left, AXIS, width - left, height - AXIS);
    context.clip();
    this.hits = [];
    const running = this.running.map((bar) => ({ ...bar, ended: Math.max(now, bar.ended) }));
    // Failed ones last, and never too narrow to be seen between others.
    const drawn = [...this.bars, ...running].filter((bar) => bar.ended >= began && bar.began <= end);
    for (const bar of [...drawn.filter((one) => !isBad(one)), ...drawn.filter(isBad)]) {
      const at = left + (bar.began - began) * scale, w = Math.max(isBad(bar) ? LEAST_BAD : 1, (bar.ended - bar.began) * scale - 0.5);
      const x = isBad(bar) ? Math.min(at, width - WEDGE) : at; // one that has just failed is not behind the edge
      for (const key of bar.keys) {
        const y = AXIS + this.lanes.get(`${bar.worker}\n${key}`) * LANE - this.top;
        if (y < AXIS - LANE || y > height) continue;
        this.#bar(context, colour, bar, x, y, w);
        this.hits.push([x, y, w, bar]);
      }
    }
    context.restore();
    this.#labels(context, colour, height, left);
  }

  #bar(context, colour, bar, x, y, w) {
    context.globalAlpha = bar.outcome === "cancelled" || bar.outcome === "skipped" ? 0.4 : 1;
    context.fillStyle = colour[shade(bar.fn)];
    context.fillRect(x, y + 2, w, LANE - 4);
    context.globalAlpha = 1;
    if (isBad(bar)) failedMark(context, colour, x, y, w);
    if (this.chosen === bar.job) {
      context.strokeStyle = colour.ink;
      context.lineWidth = 1.5;
      context.strokeRect(x, y + 2, w, LANE - 4);
    }
  }

  #axis(context, colour, { width, height, left, scale, began, end }) {
    const step = STEPS.find((one) => one * scale >= 84) ?? STEPS.at(-1);
    context.strokeStyle = colour.line;
    context.fillStyle = colour["ink-2"];
    context.lineWidth = 1;
    context.beginPath();
    for (let at = Math.ceil(began / step) * step; at <= end; at += step) {
      const x = Math.round(left + (at - began) * scale) + 0.5;
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, height);
      const part = step < 1 ? `.${(at % 1).toFixed(2).slice(2)}` : "";
      if (x < width - 50) context.fillText(`${moment(at)}${part}`, x + 4, 15);
    }
    context.moveTo(0, AXIS - 0.5);
    context.lineTo(width, AXIS - 0.5);
    context.stroke();
  }

  #labels(context, colour, height, left) {
    context.fillStyle = colour.surface;
    context.fillRect(0, AXIS, left, height);
    let before = "";
    for (const [lane, at] of this.lanes) {
      const y = AXIS + at * LANE - this.top;
      if (y < AXIS - LANE || y > height) continue;
      const [worker, key] = lane.split("\n");
      if (worker !== before) {
        context.strokeStyle = colour["line-strong"];
        context.beginPath();
        context.moveTo(0, Math.round(y) + 0.5);
        context.lineTo(this.box.clientWidth, Math.round(y) + 0.5);
        if (at) context.stroke();
      }
      context.fillStyle = colour["ink-2"];
      const slot = left < 100 ? key.replace("core ", "") : key;
      const wide = left - 20 - context.measureText(slot).width;
      context.fillText(slot, left - 8 - context.measureText(slot).width, y + 13);
      if (worker !== before || y < AXIS + LANE) {
        context.fillStyle = colour.ink;
        let text = worker;
        while (text.length > 2 && context.measureText(text).width > wide) text = `${text.slice(0, -2)}…`;
        context.fillText(text, 8, y + 13);
      }
      before = worker;
    }
    context.clearRect(0, 0, left, AXIS - 1);
  }

  // --- by hand -------------------------------------------------------------------------------------------------------

  last(span) {
    this.span = span;
    this.end = null;
    this.paint();
  }

  zoom(factor, x = null) {
    const { span, began, end } = this.#bounds();
    const width = this.box.clientWidth - this.gutter;
    const part = x === null ? 1 : Math.max(0, Math.min(1, (x - this.gutter) / width));
    const next = Math.max(0.01, Math.min(span * factor, 30 * 86400));
    if (this.end !== null || part < 0.98) this.end = began + span * part + next * (1 - part);
    if (this.end !== null && this.end > end && this.end > this.#bounds().now) this.end = null;
    this.span = next;
    this.paint();
  }

  pan(dx, dy = 0) {
    const { span, end, now } = this.#bounds();
    const moved = end + (dx * span) / (this.box.clientWidth - this.gutter);
    this.span = span;
    this.end = moved >= now ? null : moved;
    this.top += dy;
    this.paint();
  }

  #wheel(event) {
    if (event.ctrlKey || event.metaKey || (!event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX) && event.altKey)) {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.pan(event.deltaX || event.deltaY);
    } else {
      const before = this.top;
      this.pan(0, event.deltaY);
      if (this.top !== before) event.preventDefault();
      else {
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX);
      }
    }
  }

  #grab(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.from = [event.clientX, event.clientY];
    this.moved = false;
  }

  #move(event) {
    if (!this.from) {
      this.#point(event);
      return;
    }
    const dx = this.from[0] - event.clientX, dy = this.from[1] - event.clientY;
    if (!this.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    this.moved = true;
    this.from = [event.clientX, event.clientY];
    this.pan(dx, dy);
  }

  #drop(event) {
    this.from = null;
    if (!this.moved) {
      this.#point(event);
      if (this.chosen !== null && this.#hit(event)) this.go(`/job/${this.chosen}`);
    }
  }

  #hit(event) {
    return this.hits?.findLast(([x, y, w]) => event.offsetX >= x - 1 && event.offsetX <= x + w + 1 && event.offsetY >= y && event.offsetY < y + LANE)?.[3];
  }

  #point(event) {
    const bar = this.#hit(event);
    if (bar) this.#choose(bar);
  }

  #choose(bar) {
    if (this.chosen === bar.job) return;
    this.chosen = bar.job;
    say(this.readout, `${bar.name}, job ${bar.job}: ${words(bar.outcome)}, ${seconds(bar.ended - bar.began)} from ${moment(bar.began)}, on ${bar.keys.slice(0, 4).join(", ")}${bar.keys.length > 4 ? " …" : ""} of ${bar.worker}`);
    this.paint();
  }

  #key(event) {
    const width = this.box.clientWidth / 8;
    const keys = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "−": () => this.zoom(2),
      ArrowLeft: () => this.pan(-width), ArrowRight: () => this.pan(width), ArrowUp: () => this.pan(0, -LANE * 2), ArrowDown: () => this.pan(0, LANE * 2),
      Home: () => this.last(null), End: () => this.last(this.span), Enter: () => this.chosen !== null && this.go(`/job/${this.chosen}`),
      n: () => this.#next(1), p: () => this.#next(-1),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  }

  /** Choose the bar that began next, of those in sight. */
  #next(step) {
    const shown = [...new Map((this.hits ?? []).map(([, , , bar]) => [bar.job, bar])).values()].sort((a, b) => a.began - b.began);
    const at = shown.findIndex((bar) => bar.job === this.chosen);
    const bar = shown[at < 0 ? 0 : Math.max(0, Math.min(shown.length - 1, at + step))];
    if (bar) this.#choose(bar);
  }
}

const isBad = (bar) => bar.outcome === "failed" || bar.outcome === "timed_out";

/** Mark a bar as failed: an edge and hatching, and a wedge on top that short bars have, too. */
function failedMark(context, colour, x, y, w) {
  const top = y + 2, height = LANE - 4;
  context.strokeStyle = context.fillStyle = colour.bad;
  context.save();
  context.beginPath();
  context.rect(x, top, w, height);
  context.clip();
  context.lineWidth = 2;
  context.beginPath();
  for (let at = x - height; at < Math.min(x + w, context.canvas.width); at += 6) {
    context.moveTo(at, top + height);
    context.lineTo(at + height, top);
  }
  context.stroke();
  context.restore();
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, top + 0.5, Math.max(1, w - 1), height - 1);
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x + WEDGE, y);
  context.lineTo(x + WEDGE / 2, y + WEDGE);
  context.fill();
}

function slots(ranges, word) {
  const found = [];
  for (const [first, many] of ranges) for (let at = 0; at < many; at += 1) found.push(`${word} ${first + at}`);
  return found;
}
