/* What methods show: tables with bars, and lists of texts, for a round or for all of them. */

const SIGNS = { good: "✓", bad: "×", new: "+", gone: "−", faint: "" };

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return parsePacked(await new Response(stream).text());
}

function drawBar(value, largest, mark) {
  const [WIDE, HIGH] = [96, 12];
  const place = (one) => Math.min(Math.max(one / largest, 0), 1) * WIDE;
  const parts = [draw("rect", { class: "rail", x: 0, y: 3, width: WIDE, height: 6 }),
    draw("rect", { class: "bar", x: 0, y: 3, width: place(value), height: 6 })];
  if (mark !== null) parts.push(draw("path", { class: "limit", d: `M${place(mark)} 0v${HIGH}` }));
  return draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "measure", "aria-hidden": "true" }, ...parts);
}

/* A cell as { text, value, look }; it may be given as its text or as its number. */
const readCell = (cell) => (typeof cell === "number" ? { value: cell } : cell && typeof cell === "object" ? cell : { text: cell ?? "" });

function fillCell(element, cell, panel) {
  const { text = "", value = null, look = "" } = readCell(cell);
  if (look) element.setAttribute("data-look", look);
  const sign = SIGNS[look] ? [make("b", { class: "sign", text: SIGNS[look] })] : [];
  const bar = value === null ? [] : [make("span", { class: "value", text: value.toFixed(2) }), drawBar(value, panel.largest, panel.mark)];
  element.append(...sign, ...bar, ...(text ? [make("span", { class: "said", text })] : []));
  return element;
}

/* Whether cells hold sentences, so that they wrap, and stand below one another where there is little room. */
const isWordy = (panel) => panel.rows.some((row) => row.some((cell) => readCell(cell).text?.length > 20));

function drawTable(panel, frame) {
  const names = panel.columns;
  const now = (place) => (panel.by_frame && place === frame + 1 ? "now" : null);
  const head = names.map((name, place) => make(name ? "th" : "td", { scope: name ? "col" : null, class: now(place), text: name }));
  const rows = panel.rows.map((row) => make("tr", {}, ...row.map((cell, place) => fillCell(
    make(place ? "td" : "th", { scope: place ? null : "row", class: now(place), "data-name": place && cell !== null && cell !== "" ? names[place] : null }), cell, panel))));
  const table = make("table", { class: isWordy(panel) ? "drawn wordy" : "drawn" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
  return make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": panel.title }, table);
}

function drawTexts({ entries }) {
  return make("ul", { class: "entries" }, ...entries.map(({ head, text, look, depth }) =>
    make("li", { "data-look": look || null, "data-depth": depth || null },
      make("div", { class: "head" }, SIGNS[look] ? make("b", { class: "sign", text: SIGNS[look] }) : null, head),
      text ? make("p", { class: "text", text }) : null)));
}

/* Two columns of texts, and lines between them that are drawn anew whenever the columns change. */
function drawMatching(panel) {
  const [first, second] = panel.sides.map((side) => make("h5", { text: side }));
  const from = (place) => panel.matches.filter((match) => match.right === place).map(({ left, value, look }) =>
    make("div", { class: "from", "data-look": look || null }, make("span", { text: `${look === "faint" ? "not " : ""}← ${panel.left[left].head}` }),
      make("span", { text: value === null ? "" : value.toFixed(2) }), value === null ? null : drawBar(value, 1, panel.mark)));
  const left = drawTexts({ entries: panel.left });
  const right = drawTexts({ entries: panel.right });
  [...right.children].forEach((one, place) => one.append(...from(place)));
  const said = panel.matches.filter(({ look }) => look !== "faint").map((match) => `${panel.left[match.left].head} to ${panel.right[match.right].head}`).join(", ");
  const svg = draw("svg", { role: "img", "aria-label": said ? `Lines from ${said}` : "No lines" });
  const redraw = () => {
    const { top, width } = svg.getBoundingClientRect();
    const middle = (item) => { const box = item.getBoundingClientRect(); return (box.top + box.bottom) / 2 - top; };
    svg.replaceChildren(...panel.matches.map(({ left: a, right: b, value, look }) => {
      const [y1, y2] = [middle(left.children[a]), middle(right.children[b])];
      return draw("path", { class: `tie ${look}`, "stroke-width": 1 + 4 * Math.min(Math.max(value ?? 0.3, 0), 1),
        d: `M0 ${y1}C${width / 2} ${y1} ${width / 2} ${y2} ${width} ${y2}` });
    }));
  };
  new ResizeObserver(redraw).observe(right);
  return make("div", { class: "pairs" }, first, second, left, make("div", { class: "ties" }, svg), right);
}

const PANELS = { table: drawTable, texts: drawTexts, matching: drawMatching };

/* Panels as elements; `frame` is the number of the round that is shown. */
function drawPanels(panels, frame) {
  const isWide = (panel) => panel.kind === "matching" || panel.columns?.length > 5 || (panel.columns?.length === 5 && isWordy(panel));
  return panels.map((panel) => make("section", { class: isWide(panel) ? "drawing wide" : "drawing" }, make("h4", { text: panel.title }),
    panel.note ? make("p", { class: "note", text: panel.note }) : null,
    PANELS[panel.kind](panel, frame)));
}

/* The panels below the team, which follow its scrubber; scrolled tables stay where they are. */
function startPictures() {
  const [whole, packed] = [byId("pictures"), byId("data-pictures")];
  if (!packed) return () => {};
  const found = unpack(packed.textContent);
  let asked = 0;
  return async (number) => {
    asked = number;
    const { panels, frames } = await found;
    if (asked !== number) return;
    const left = [...whole.querySelectorAll(".scroll")].map((one) => [one.getAttribute("aria-label"), one.scrollLeft]);
    const own = frames[number] ? drawPanels(frames[number], number)
      : [make("p", { class: "note", text: "What the method showed of this version had no room in this page." })];
    whole.replaceChildren(...own, ...drawPanels(panels, number));
    for (const one of whole.querySelectorAll(".scroll")) one.scrollLeft = new Map(left).get(one.getAttribute("aria-label")) ?? 0;
  };
}

/* The rounds of a trail, with a scrubber of their own. */
function drawRounds({ panels, frames }) {
  const inside = make("div", { class: "pictures" });
  const name = make("output", { class: "round" });
  const range = make("input", { type: "range", min: "0", max: String(frames.length - 1), value: "0", step: "1", "aria-label": "Round of this run" });
  const show = (number) => {
    const { label, text, panels: own } = frames[number];
    range.value = number;
    range.setAttribute("aria-valuetext", label);
    name.textContent = label;
    inside.replaceChildren(...(text ? [make("p", { class: "text", text })] : []), ...drawPanels(own, number), ...drawPanels(panels, number));
  };
  const step = (far) => show(Math.min(Math.max(Number(range.value) + far, 0), frames.length - 1));
  range.addEventListener("input", () => show(Number(range.value)));
  show(0);
  const scrubber = make("div", { class: "scrubber" }, make("button", { type: "button", "aria-label": "Earlier round", text: "←", onclick: () => step(-1) }), range,
    make("button", { type: "button", "aria-label": "Later round", text: "→", onclick: () => step(1) }), name);
  return make("div", { class: "rounds" }, ...(frames.length > 1 ? [scrubber] : []), inside);
}
