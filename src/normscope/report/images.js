// Which rows are shown, and in which order. `visible` is what review goes through.
let ordered = rows;
let visible = rows;

const filters = {
  all: () => true,
  anomalous: (row) => row.rank < above,
  normal: (row) => row.rank >= above,
  open: (row) => row.review === null,
  reviewed: (row) => row.review !== null,
};

const orders = {
  high: (a, b) => a.rank - b.rank,
  low: (a, b) => b.rank - a.rank,
  path: (a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : a.rank - b.rank),
};

// Only the first `limit` of the visible rows are in the page, or ten thousand would make it slow; more come at its end.
const PORTION = 200;
let limit = PORTION;

function arrange() {
  ordered = rows.slice().sort(orders[find("sort").value]);
  filter();
}

function filter() {
  const wanted = filters[find("show").value];
  const text = find("find").value.toLowerCase();
  visible = ordered.filter((row) => wanted(row) && (!text || row.path.toLowerCase().includes(text)));
  table.replaceChildren(...visible.slice(0, limit).map((row) => row.element));
  const all = visible.length === rows.length;
  find("count").textContent = several(visible.length, "image") + (all ? "" : ` of ${rows.length.toLocaleString("en")}`);
  showMore();
}

function showMore(least = 0) {
  while (limit < least) limit += PORTION;
  table.append(...visible.slice(table.rows.length, limit).map((row) => row.element));
  find("more").hidden = visible.length <= limit;
  find("more").textContent = `Show more: ${several(Math.max(visible.length - limit, 0), "image")} left`;
}

find("more").addEventListener("click", () => showMore(limit + 1));
new IntersectionObserver((entries) => {
  if (entries.some((entry) => entry.isIntersecting)) showMore(limit + 1);
}, { rootMargin: "600px" }).observe(find("more"));

// Many changes in one frame, as from a slider, are one.
let waiting = false;
listeners.push(() => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (find("show").value !== "all") filter();
  });
});

for (const [id, event, respond] of [["show", "change", filter], ["sort", "change", arrange], ["find", "input", filter]]) {
  find(id).addEventListener(event, () => {
    limit = PORTION;
    respond();
  });
}
filter();
