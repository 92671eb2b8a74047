// One job: where it stands and why, its attempts, what was enforced, what it used, whom it belongs to, what it writes.

import { h, say } from "./dom.js";
import { amounts, bytes, count, many, moment, seconds, words } from "./format.js";
import { again, ask } from "./live.js";
import { empty, jobLink } from "./table.js";

const MOST_LINES = 2000;

export function jobView({ live, job }) {
  const name = h("span", { text: `Job ${job}` });
  const state = h("span", { class: "tag", hidden: true });
  const stands = panel("Where it stands");
  const attempts = panel("Attempts");
  const usage = panel("Asked and used");
  const receipt = panel("Receipt");
  const family = panel("Around it");
  const log = logPanel(live);
  const place = h("div", {}, h("div", { class: "columns" }, h("div", { class: "stack" }, stands.node, attempts.node, usage.node, receipt.node, family.node), log.node));
  let ended = false;
  let asked = 0;

  async function load() {
    if (ended && asked > 1) return 0;
    asked += 1;
    const wanted = asked === 1 || asked % 5 === 0 || ended ? "?family=1" : "";
    try {
      const { found, size } = await ask(`/api/job/${job}${wanted}`);
      if (Boolean(found.ended) !== ended && asked > 1) asked = 0; // it has just ended: once more, with its family
      ended = Boolean(found.ended);
      show(found);
      return size;
    } catch (error) {
      if (error.status === 404) place.replaceChildren(empty(`Job ${job} is not known`, error.message));
      return 0;
    }
  }

  function show(found) {
    const any = found.ended ?? found.row ?? found.explain;
    say(name, any.name || `Job ${job}`);
    const now = found.ended?.outcome ?? found.row?.state ?? found.explain?.state ?? "";
    state.hidden = !now;
    state.className = `tag ${now}`;
    say(state, words(now));
    document.title = `${any.name} · job ${job} · grainlike`;
    stands.list(standing(found));
    attempts.body.replaceChildren(...tried(found));
    usage.list(used(found));
    receipt.body.replaceChildren(enforced(found.ended));
    if ("children" in found) family.body.replaceChildren(tree(found, job, any.name));
  }

  const stop = again(load);
  return {
    topic: `topic=log&job=${job}`,
    nodes: [h("div", { class: "head" }, h("h1", {}, name), state, h("span", { class: "note", text: `job ${job}` })), place],
    close() {
      stop();
      log.close();
    },
  };
}

function panel(title) {
  const body = h("div");
  const node = h("section", { class: "panel" }, h("h2", { text: title }), body);
  return {
    node,
    body,
    list(rows) {
      const text = rows.map(([key, value]) => [h("dt", { text: key }), h("dd", {}, value)]);
      body.replaceChildren(h("dl", { class: "facts-list" }, ...text.flat()));
    },
  };
}

function standing({ ended, row, explain, running }) {
  const rows = [];
  if (ended) {
    rows.push(["Ended", `${moment(ended.ended_at)}, ${words(ended.outcome)}`]);
    if (ended.error) rows.push(["Error", h("span", { class: "error-text", text: ended.error })]);
    if (ended.worker) rows.push(["Worker", ended.worker]);
  } else if (explain) {
    rows.push(["Now", explain.words]);
    if (explain.pools) rows.push(["Pools", explain.pools]);
    rows.push(["Attempt", String(explain.attempt || "not sent yet")]);
    for (const at of running) rows.push(["Holds", h("span", {}, mono(amounts(at.slots)), ` on ${at.worker}`)]);
    if (explain.holders.length) rows.push(["Held up by", h("span", {}, ...explain.holders.slice(0, 8).flatMap((number) => [jobLink(number), " "]))]);
  }
  const named = (ended ?? row)?.named;
  if (named) rows.push(["Called", named]);
  const program = (ended ?? row)?.program;
  if (program) rows.push(["Program", program]);
  return rows;
}

/** Attempts of a job, the first one first: those before the last as the head kept them, and the last or present one. */
function tried({ ended, row, explain, earlier }) {
  const all = earlier.map((one) => ({ ...one, ended_at: one.began_at + one.ran_s }));
  if (ended?.attempts) {
    const began = ended.ran_s === null ? null : ended.ended_at - ended.ran_s;
    all.push({ ...ended, attempt: ended.attempts, began_at: began });
  } else if (row?.running_s !== null && row?.running_s !== undefined) {
    all.push({ attempt: row.attempt, worker: row.worker, slots: row.allocation, outcome: row.state, error: "", ran_s: row.running_s });
  }
  const last = ended ? ended.attempts : (explain?.attempt ?? 0);
  const forgotten = (all[0]?.attempt ?? 1) - 1;
  const notes = [];
  if (!all.length) notes.push(h("p", { class: "note", text: last && !ended ? "It is on its way to a worker." : "It has not run." }));
  if (all.length && forgotten > 0) notes.push(h("p", { class: "note", text: `Of the first ${many(forgotten, "attempt")} nothing is kept.` }));
  return [...notes, h("ol", { class: "attempts" }, ...all.map(attempt))];
}

function attempt(one) {
  const times = [];
  if (one.began_at) times.push(`${moment(one.began_at)} to ${moment(one.ended_at)}`);
  if (one.ran_s !== null) times.push(seconds(one.ran_s));
  return h(
    "li",
    {},
    h("div", { class: "attempt-head" }, h("b", { text: `Attempt ${one.attempt}` }), h("span", { class: `tag ${one.outcome}`, text: words(one.outcome) }), h("span", { class: "dim", text: times.join(", ") || "it did not run" })),
    h("div", {}, one.worker ? `on ${one.worker} ` : "", mono(amounts(one.slots))),
    one.error ? h("div", { class: "error-text", text: one.error }) : null,
  );
}

/** The receipt of a job: limits as its own process read them back. */
function enforced(ended) {
  const told = ended?.receipt;
  if (!told) return h("p", { class: "note", text: ended ? "No process of its reported what was enforced, or it is forgotten." : "Its process reports that with its end." });
  const widths = Object.entries(told.threads).map(([pool, width]) => `${pool} ${width}`);
  const rows = [["Cores", told.affinity.join(", ") || "not pinned"], ["Threads", widths.join(", ") || "no pools of threads"]];
  if (told.devices.length) rows.push(["GPUs", told.devices.join(", ")]);
  rows.push(["Memory", told.memory_tier === "none" ? "no limit" : `limit by ${told.memory_tier}`]);
  return h("dl", { class: "facts-list" }, ...rows.flatMap(([key, value]) => [h("dt", { text: key }), h("dd", { class: "mono", text: value })]));
}

function used({ ended, row, explain }) {
  const request = ended?.request ?? explain?.request ?? row?.request;
  const rows = [];
  if (request) rows.push(["Asks for", mono(amounts(request))]);
  if (ended) {
    rows.push(["Waited", seconds(ended.queued_s)], ["Ran", seconds(ended.ran_s)]);
    rows.push(["CPU time", seconds(ended.cpu_s)]);
    if (ended.ran_s) rows.push(["Cores busy", (ended.cpu_s / ended.ran_s).toFixed(2)]);
    rows.push([ended.coroutine ? "Memory of its process" : "Peak memory", bytes(ended.peak_memory)]);
  } else if (row) {
    rows.push(["Runs for", seconds(row.running_s)], ["Priority", String(row.priority)]);
  }
  return rows;
}

const mono = (text) => h("span", { class: "mono", text: text || "–" });

function tree({ parent, children, more_children: more }, job, name) {
  const line = (row, below) => h("a", { class: below ? "below" : "", href: `/job/${row.job}` }, h("span", { class: "name", text: row.name || `job ${row.job}` }), h("span", { class: "dim", text: `job ${row.job}` }), h("span", { class: `tag ${row.outcome ?? row.state}`, text: words(row.outcome ?? row.state) }));
  if (!parent && !children.length) return h("p", { class: "note", text: "No job submitted it, and it has submitted none." });
  return h(
    "div",
    { class: "family" },
    parent && line(parent, false),
    h("span", { class: parent ? "below self" : "self" }, h("span", { class: "name", text: name }), h("span", { class: "dim", text: `job ${job}` })),
    ...children.slice(0, 100).map((row) => line(row, true)),
    more || children.length > 100 ? h("span", { class: "note", text: "and more" }) : null,
  );
}

function logPanel(live) {
  const text = h("pre", { class: "log", tabindex: "0", role: "log", "aria-label": "What the job has written", "aria-live": "off" });
  const note = h("p", { class: "note", text: "Nothing written yet." });
  let attempt = 0;

  function add({ detail: { lines, dropped, begin, end } }) {
    if (begin) {
      text.replaceChildren();
      attempt = 0;
    }
    const follows = text.scrollTop + text.clientHeight >= text.scrollHeight - 24;
    if (dropped) text.append(h("span", { class: "note", text: `[${count(dropped)} lines are left out]\n` }));
    for (const [line, tried, stream] of lines) {
      if (tried !== attempt && tried > 1) text.append(h("span", { class: "note", text: `[attempt ${tried}]\n` }));
      attempt = tried;
      text.append(h("span", { class: stream === "stdout" ? null : stream, text: `${line}\n` }));
    }
    while (text.childElementCount > MOST_LINES) text.firstChild.remove();
    if (follows) text.scrollTop = text.scrollHeight;
    say(note, end ? (text.childElementCount ? "" : "It has written nothing that is kept.") : "");
  }

  live.addEventListener("lines", add);
  return {
    node: h("section", { class: "panel" }, h("h2", { text: "Log" }), text, note),
    close: () => live.removeEventListener("lines", add),
  };
}
