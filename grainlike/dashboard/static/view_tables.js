// Queue, workers, pools and limits: tables of what the head says now.

import { h, say, shade } from "./dom.js";
import { amounts, bytes, count, many, seconds, words } from "./format.js";
import { Table, empty, full, jobLink } from "./table.js";
import { inOrder, slotsOf } from "./live.js";

/** A view that shows what the stream says under `topic`; `draw` is called with it whenever it changes. */
function followed({ live }, { topic, title, parts, draw, close }) {
  const note = h("span", { class: "note" });
  const show = () => live.doc && draw(live.doc, note);
  live.addEventListener("doc", show);
  return {
    topic: `topic=${topic}`,
    nodes: [h("div", { class: "head" }, h("h1", { text: title }), note), ...parts],
    close() {
      live.removeEventListener("doc", show);
      close();
    },
  };
}

export function queueView(app) {
  const table = new Table({
    label: "What waits, by alike jobs, the largest group first",
    tall: true,
    columns: [
      { title: "Jobs", width: "64px", narrow: "40px", cell: (row) => h("strong", { text: count(row.count) }) },
      { title: "Function", width: "minmax(120px, 1.2fr)", narrow: "minmax(0, 1fr)", cell: (row) => jobLink(row.job, row.name || `job ${row.job}`) },
      { title: "Each asks for", width: "minmax(120px, 1fr)", narrow: "minmax(0, 1fr)", cell: (row) => h("span", { class: "mono", text: amounts(row.request) || "nothing" }) },
      { title: "Priority", width: "64px", num: true, extra: true, cell: (row) => String(row.priority) },
      { title: "Program", width: "minmax(80px, 0.8fr)", extra: true, dim: true, cell: (row) => row.program || (row.client ? `client ${row.client}` : "the head's own") },
      { title: "Why it waits", width: "minmax(200px, 2.4fr)", below: true, cell: (row) => [h("span", { class: "tag queued", text: words(row.reason) }), " ", row.words] },
    ],
  });
  const place = h("div", {}, empty("Asking", "The head is asked what waits."));
  return followed(app, {
    topic: "queue",
    title: "Queue",
    parts: [place],
    close: () => table.close(),
    draw(doc, note) {
      say(note, doc.waiting ? `${many(doc.waiting, "job")} in ${many(doc.groups, "group")} of alike ones${doc.groups > doc.rows.length ? `, the largest ${doc.rows.length} shown` : ""}` : "");
      if (doc.rows.length) table.show(doc.rows, doc.groups);
      const shown = doc.rows.length ? table.node : empty("Nothing waits", "Each job that was submitted has its slots, or has ended.");
      if (place.firstChild !== shown) place.replaceChildren(shown);
    },
  });
}

export function workersView({ live, view }) {
  const note = h("span", { class: "note" });
  const table = new Table({
    label: "Workers",
    scroller: view,
    columns: [
      { title: "Worker", width: "minmax(100px, 1fr)", narrow: "minmax(0, 1fr)", cell: (row) => full(row.name) },
      { title: "Host", width: "minmax(80px, 0.8fr)", extra: true, dim: true, cell: (row) => full(row.host) },
      { title: "Block", width: "minmax(80px, 0.7fr)", extra: true, dim: true, cell: (row) => full(row.block) },
      { title: "Cores", width: "84px", narrow: "64px", num: true, cell: (row) => `${row.busy}/${row.ids[0].length}` },
      { title: "GPUs", width: "56px", wide: true, num: true, cell: (row) => (row.ids[1].length ? `${row.busyGpus}/${row.ids[1].length}` : "–") },
      { title: "Jobs", width: "56px", narrow: "44px", num: true, cell: (row) => count(row.jobs) },
      { title: "Stored", width: "76px", wide: true, num: true, cell: (row) => bytes(row.stored) },
      { title: "On disk", width: "84px", extra: true, num: true, cell: (row) => bytes(row.spilled) },
      { title: "Runs", width: "minmax(120px, 1.4fr)", below: true, cell: functions },
      { title: "Offers", width: "minmax(120px, 1.4fr)", extra: true, cell: (row) => h("span", { class: "mono", text: amounts(row.resources), title: row.resources }) },
      { title: "State", width: "minmax(90px, 0.9fr)", wide: true, cell: (row) => (row.shut ? h("span", { class: "tag queued", text: row.shut, title: `gets no jobs: ${row.shut}` }) : h("span", { class: "tag up", text: "takes jobs" })) },
    ],
  });
  const place = h("div", {}, empty("No workers yet", "They appear when they join: grainlike worker start, or a pool."));

  function functions(row) {
    const held = [...row.held].sort((a, b) => b[1] - a[1]).slice(0, 3);
    if (!held.length) return h("span", { class: "dim", text: "idle" });
    const cells = held.flatMap(([fn, slots]) => [h("span", { class: `swatch ${shade(fn)}`, "aria-hidden": "true" }), ` ${live.names[fn] ?? ""} × ${slots}  `]);
    return h("span", {}, ...cells);
  }

  function draw() {
    const rows = inOrder(live).map((worker) => {
      const [cores, gpus] = [slotsOf(worker, 0), slotsOf(worker, 1)];
      const held = new Map();
      for (const slot of [...cores, ...gpus]) if (slot) held.set(slot.fn, (held.get(slot.fn) ?? 0) + 1);
      return { ...worker, busy: cores.filter(Boolean).length, busyGpus: gpus.filter(Boolean).length, held };
    });
    const [stored, spilled, moved] = live.figures?.bytes ?? [0, 0, 0];
    const values = stored + spilled + moved ? `, large values: ${bytes(stored)} in memory, ${bytes(spilled)} on disk, ${bytes(moved)} moved between workers` : "";
    say(note, rows.length ? `${many(rows.length, "worker")}${values}` : "");
    table.show(rows);
    const shown = rows.length ? table.node : place.firstChild;
    if (place.firstChild !== shown) place.replaceChildren(shown);
  }
  live.addEventListener("slots", draw);
  return {
    topic: "topic=slots",
    nodes: [h("div", { class: "head" }, h("h1", { text: "Workers" }), note), place],
    close() {
      live.removeEventListener("slots", draw);
      table.close();
    },
  };
}

export function poolsView(app) {
  const pools = new Table({
    label: "Pools",
    tall: true,
    columns: [
      { title: "Pool", width: "minmax(90px, 1fr)", narrow: "minmax(0, 1fr)", cell: (row) => h("strong", { text: row.pool }) },
      { title: "Where", width: "minmax(70px, 0.7fr)", narrow: "64px", dim: true, cell: (row) => row.kind },
      { title: "Each offers", width: "minmax(120px, 1.4fr)", wide: true, cell: (row) => h("span", { class: "mono", text: row.offer || "not known yet" }) },
      { title: "Up", width: "48px", num: true, cell: (row) => count(row.up) },
      { title: "Pending", width: "64px", num: true, cell: (row) => count(row.pending) },
      { title: "Wanted", width: "64px", wide: true, num: true, cell: (row) => count(row.wanted) },
      { title: "Least–most", width: "88px", extra: true, num: true, cell: (row) => `${row.min}–${row.max}` },
      { title: "Core hours", width: "84px", extra: true, num: true, cell: (row) => row.spent_core_hours.toFixed(1) },
      { title: "Why no more", width: "minmax(140px, 1.6fr)", below: true, cell: (row) => (row.paused ? [h("span", { class: "tag paused", text: "paused" }), " ", row.paused] : row.why || "–") },
    ],
  });
  const blocks = new Table({
    label: "Blocks",
    tall: true,
    columns: [
      { title: "Block", width: "minmax(90px, 1fr)", narrow: "minmax(0, 1fr)", cell: (row) => row.label },
      { title: "State", width: "88px", cell: (row) => h("span", { class: `tag ${row.state}`, text: row.state }) },
      { title: "Native id", width: "minmax(70px, 0.8fr)", extra: true, cell: (row) => h("span", { class: "mono", text: row.native || "–" }) },
      { title: "Nodes", width: "minmax(90px, 1fr)", wide: true, cell: (row) => row.nodes || "–" },
      { title: "Workers", width: "64px", num: true, cell: (row) => count(row.workers) },
      { title: "Submitted", width: "104px", wide: true, num: true, cell: (row) => seconds(row.submitted_s) },
      { title: "Time left", width: "104px", wide: true, num: true, cell: (row) => seconds(row.left_s) },
      { title: "Why", width: "minmax(120px, 1.4fr)", below: true, cell: (row) => row.reason || "–" },
    ],
  });
  const place = h("div", { class: "stack" }, empty("Asking", "The head is asked for its pools."));
  return followed(app, {
    topic: "pools",
    title: "Pools",
    parts: [place],
    close() {
      pools.close();
      blocks.close();
    },
    draw(doc, note) {
      const hidden = doc.more_pools + doc.more_blocks;
      say(note, doc.error ?? (doc.pools.length ? `${many(doc.pools.length, "pool")}, ${many(doc.blocks.length, "block")}${hidden ? `; ${count(hidden)} more are not shown` : ""}` : ""));
      if (doc.error || !doc.pools.length) {
        place.replaceChildren(empty("No pools", "Workers of batch systems come from pools: grainlike up, or Executor(launch=...)."));
        return;
      }
      pools.show(doc.pools);
      blocks.show(doc.blocks);
      if (pools.node.parentNode !== place) place.replaceChildren(pools.node, blocks.node);
    },
  });
}

export function limitsView(app) {
  const table = new Table({
    label: "Limits and rates",
    tall: true,
    columns: [
      { title: "Name", width: "minmax(120px, 1fr)", narrow: "minmax(0, 1fr)", cell: (row) => h("strong", { text: row.name }) },
      { title: "Kind", width: "80px", narrow: "56px", cell: (row) => row.kind },
      { title: "Allows", width: "minmax(110px, 1fr)", narrow: "minmax(0, 0.9fr)", num: true, cell: (row) => (row.kind === "limit" ? `${count(row.most)} at once` : `${row.most} per s`) },
      { title: "Running", width: "88px", narrow: "64px", num: true, cell: (row) => (row.kind === "limit" ? count(row.running) : "–") },
      { title: "Waiting", width: "88px", narrow: "60px", num: true, cell: (row) => count(row.waiting) },
      { title: "Next start", width: "minmax(100px, 1fr)", wide: true, num: true, cell: nextStart },
    ],
  });

  function nextStart(row) {
    if (row.kind === "limit") return row.running >= row.most ? "when one ends" : "now";
    return row.next_in_s ? `in ${seconds(row.next_in_s)}` : "now";
  }
  const place = h("div", {}, empty("Asking", "The head is asked for its limits."));
  return followed(app, {
    topic: "limits",
    title: "Limits",
    parts: [place],
    close: () => table.close(),
    draw(doc, note) {
      say(note, doc.rows.length ? `of the jobs that have not ended${doc.more ? `; ${count(doc.more)} more are not shown` : ""}` : "");
      table.show(doc.rows);
      const shown = doc.rows.length ? table.node : empty("No limits now", "No job that has not ended asks for a Limit or a Rate.");
      if (place.firstChild !== shown) place.replaceChildren(shown);
    },
  });
}
