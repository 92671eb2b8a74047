// Usage: what the jobs of each function asked for beside what they used, and what to ask for next time.

import { h, say } from "./dom.js";
import { amounts, bytes, count, many, seconds, words } from "./format.js";
import { Table, empty } from "./table.js";
import { ask } from "./live.js";

const mono = (text) => h("span", { class: "mono", text: text || "–", title: text || null });

/** The median and the most of a figure, as `write` writes them. */
const spread = (figure, write) => (figure ? `${write(figure.median)}, at most ${write(figure.most)}` : "–");

function outcomes(row) {
  const tags = Object.entries(row.outcomes).map(([outcome, number]) => h("span", { class: `tag ${outcome}`, text: `${count(number)} ${words(outcome)}` }));
  return h("span", { class: "tags" }, ...tags);
}

export function usageView() {
  const note = h("span", { class: "note", role: "status", text: "Asking" });
  const table = new Table({
    label: "Use of resources by function",
    tall: true,
    columns: [
      { title: "Function", width: "minmax(88px, 1fr)", narrow: "minmax(0, 1fr)", cell: (row) => h("strong", { text: row.name }) },
      { title: "Ended", width: "minmax(120px, 1fr)", wide: true, cell: outcomes },
      { title: "Asked for", width: "minmax(88px, 1fr)", narrow: "minmax(0, 1fr)", cell: (row) => mono(amounts(row.asked)) },
      { title: "Cores busy", width: "minmax(80px, 0.9fr)", wide: true, cell: (row) => spread(row.cores, (value) => value.toFixed(2)) },
      { title: "Peak memory", width: "minmax(90px, 1fr)", wide: true, cell: (row) => spread(row.memory, bytes) },
      { title: "Ran", width: "minmax(90px, 1fr)", extra: true, cell: (row) => spread(row.ran_s, seconds) },
      { title: "Ask for next time", width: "minmax(120px, 1.2fr)", below: true, cell: (row) => (row.suggested ? [h("span", { class: "tag up", text: "suggested" }), " ", mono(amounts(row.suggested))] : h("span", { class: "dim", text: row.unsuggested })) },
    ],
  });
  const place = h("div");
  const again = h("button", { type: "button", text: "Refresh", onclick: load });
  let over = false;

  async function load() {
    const { found } = await ask("/api/usage").catch((error) => {
      say(note, error.message);
      return {};
    });
    if (over || !found) return;
    say(note, `of the last ${many(found.jobs, "job")} that have ended`);
    table.show(found.rows);
    place.replaceChildren(found.rows.length ? table.node : empty("No job has ended yet", "What jobs use is known when they have ended."));
  }
  load();
  return {
    nodes: [h("div", { class: "head" }, h("h1", { text: "Usage" }), note, again), place],
    close() {
      over = true;
      table.close();
    },
  };
}
