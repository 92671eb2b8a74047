// What the server tells of a head, update by update, and the state that follows from it.

const AGAIN_MS = 3000;

/** State of the head by the updates of one stream. Events: `figures`, `slots`, `doc`, `lines`, `status`. */
export class Live extends EventTarget {
  constructor() {
    super();
    this.lost = "";
    this.away = "";
    this.figures = null;
    this.figuresAt = 0;
    this.names = [];
    this.workers = new Map();
    this.doc = null;
    this.query = null;
    this.source = null;
    document.addEventListener("visibilitychange", () => this.#look());
  }

  /** Follow a topic, as `topic=slots`; what was known of another is forgotten. */
  follow(query) {
    this.query = query;
    this.doc = null;
    this.#open();
  }

  get still() {
    return document.hidden;
  }

  #look() {
    if (document.hidden) this.#close();
    else if (this.query !== null) this.#open();
    this.#tell("status");
  }

  #close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  #open() {
    this.#close();
    if (document.hidden) return;
    const source = (this.source = new EventSource(`/api/live?${this.query}`));
    source.onmessage = (event) => this.#take(JSON.parse(event.data));
    source.onerror = () => this.#failed(source);
  }

  async #failed(source) {
    if (source !== this.source) return;
    this.away = "The dashboard itself does not answer. It is asked again.";
    this.#tell("status");
    if (source.readyState !== EventSource.CLOSED) return;
    this.#close();
    this.timer = setTimeout(() => this.#open(), AGAIN_MS);
    const answer = await fetch("/api/head").catch(() => null);
    if (answer?.status === 403) {
      this.away = "This browser's entry is not valid any more: the dashboard was started anew. Open its new link.";
      this.#tell("status");
    }
  }

  #take(told) {
    const before = this.away + this.lost;
    this.away = "";
    if ("lost" in told) this.lost = told.lost;
    if (before !== this.away + this.lost) this.#tell("status");
    if (told.figures) {
      this.figures = told.figures;
      this.figuresAt = performance.now();
      this.#tell("figures");
    }
    if (told.anew || told.f || told.w || told.c || told.x) this.#pieces(told);
    if (told.doc) {
      this.doc = told.doc;
      this.#tell("doc");
    }
    if (told.lines) this.dispatchEvent(new CustomEvent("lines", { detail: told }));
  }

  #pieces(told) {
    if (told.anew) {
      this.workers.clear();
      this.names = [];
    }
    for (const [number, name] of told.f ?? []) this.names[number] = name;
    for (const row of told.w ?? []) {
      const worker = this.#worker(row[0]);
      [, worker.name, worker.block, worker.host, worker.resources, worker.shut, worker.pid, worker.memory] = row;
      worker.ids = [ids(row[8]), ids(row[9])];
      [worker.jobs, worker.stored, worker.spilled] = row.slice(10);
    }
    for (const [number, kind, first, part] of told.c ?? []) this.#worker(number).parts[kind].set(first, part);
    for (const number of told.x ?? []) this.workers.delete(number);
    this.#tell("slots");
  }

  #worker(number) {
    let worker = this.workers.get(number);
    if (!worker) {
      worker = { number, name: "", ids: [[], []], parts: [new Map(), new Map()], jobs: 0, stored: 0, spilled: 0, shut: "" };
      this.workers.set(number, worker);
    }
    return worker;
  }

  #tell(what) {
    this.dispatchEvent(new Event(what));
  }
}

function ids(ranges) {
  const found = [];
  for (const [first, many] of ranges) for (let at = 0; at < many; at += 1) found.push(first + at);
  return found;
}

const natural = new Intl.Collator("en", { numeric: true });

/** Return the workers by name, n2 before n10. */
export const inOrder = (live) => [...live.workers.values()].filter(({ name }) => name).sort((a, b) => natural.compare(a.name, b.name));

/** Return what is on each core (kind 0) or GPU (1) of a worker, in order: null, or `{fn, job, more}`. */
export function slotsOf(worker, kind) {
  const slots = new Array(worker.ids[kind].length).fill(null);
  for (const [start, part] of worker.parts[kind]) {
    for (const [first, many, fn, job, more] of part) {
      for (let at = 0; at < many; at += 1) {
        if (start + first + at < slots.length) slots[start + first + at] = { fn, job, more };
      }
    }
  }
  return slots;
}

/** Ask for an answer of the server; an error says why there is none. */
export async function ask(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  const text = await answer.text();
  if (!answer.ok) {
    let why = text;
    try {
      why = JSON.parse(text).error;
    } catch { /* it is text */ }
    const error = new Error(why);
    error.status = answer.status;
    throw error;
  }
  return { found: JSON.parse(text), size: text.length };
}

const LEAST_MS = 2000;
const BYTES_PER_MS = 20;

/** Call `once` now and then again and again: seldom where answers are large, and not while nobody looks. */
export function again(once) {
  let timer = 0;
  let over = false;
  const turn = async () => {
    const size = document.hidden ? 0 : ((await once().catch(() => 0)) ?? 0);
    if (!over) timer = setTimeout(turn, Math.max(LEAST_MS, size / BYTES_PER_MS));
  };
  turn();
  return () => {
    over = true;
    clearTimeout(timer);
  };
}
