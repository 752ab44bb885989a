/* The tasks: what came of each in every phase, and the trail of one. */

function startTasks() {
  let found, places, open = null;
  const [WIDE, HIGH] = [7, 13];
  const CHUNK = 40;
  const loaded = new Map();
  const marks = new Map();

  function read() {
    found = readData("data-runs");
    places = new Map(found.map((place, number) => [place.key, { ...place, number }]));
    loaded.clear();
    marks.clear();
  }

  const nameOf = ([task, sample]) => task + (sample ? `#${sample}` : "");
  const WORDS = { right: "right", wrong: "wrong", error: "error", open: "not graded" };

  function orderTasks(rows) {
    const states = new Map();
    rows.forEach((place, row) => place.rows.forEach((one) => {
      const name = nameOf(one);
      if (!states.has(name)) states.set(name, { first: place.iteration, right: 0, name });
      states.get(name).right += one[2] === "right" ? 1 + row / 1000 : 0;
    }));
    return [...states.values()].sort((a, b) => a.first - b.first || b.right - a.right || (a.name < b.name ? -1 : 1)).map((one) => one.name);
  }

  function drawCell(one, x) {
    if (one[2] === "error") return draw("path", { class: "cell error", d: `M${x + 1} 4l5 5m0 -5l-5 5` });
    const side = one[2] === "wrong" ? 0.5 : 0;
    return draw("rect", { class: `cell ${one[2]}`, x: x + 0.5 + side, y: 2 + side, width: WIDE - 2 - 2 * side, height: HIGH - 4 - 2 * side });
  }

  function drawRow(place, order) {
    const columns = new Map(order.map((name, column) => [name, column]));
    const count = (state) => place.rows.filter((one) => one[2] === state).length;
    const ran = new Map(place.rows.map((one, number) => [columns.get(nameOf(one)), number]));
    const none = order.map((_, column) => column).filter((column) => !ran.has(column))
      .map((column) => `M${column * WIDE + 2.5} ${HIGH / 2 - 0.5}h1v1h-1z`).join("");
    const summary = ["right", "wrong", "error", "open"].filter(count).map((state) => `${count(state)} ${WORDS[state]}`).join(", ");
    const chosen = draw("rect", { class: "cell chosen", y: 0.5, width: WIDE, height: HIGH - 1, visibility: "hidden" });
    const svg = draw("svg", { width: order.length * WIDE, height: HIGH, role: "img", "aria-label": `${place.title}: ${summary}` },
      draw("path", { class: "cell none", d: none }), ...place.rows.map((one) => drawCell(one, columns.get(nameOf(one)) * WIDE)), chosen);
    svg.addEventListener("click", (event) => {
      const number = ran.get(Math.floor((event.clientX - svg.getBoundingClientRect().left) / WIDE));
      if (number !== undefined) openTrail(place, number);
    });
    marks.set(place.key, (name) => {
      chosen.setAttribute("visibility", columns.has(name) ? "visible" : "hidden");
      chosen.setAttribute("x", (columns.get(name) ?? 0) * WIDE);
    });
    return make("div", { class: "row" }, make("span", { text: place.row, title: place.title }), make("small", { text: summary }), svg);
  }

  function drawHeat() {
    byId("heat").replaceChildren();
    const blocks = [["test", "Test tasks"], ["gate", "Gate tasks"], ["train", "Train tasks"], ["asked", "Questions"]];
    for (const [split, title] of blocks) {
      const rows = [...places.values()].filter((place) => place.split === split || (split === "test" && place.split === "baseline"));
      if (!rows.length) continue;
      const order = orderTasks(rows);
      byId("heat").append(make("div", { class: "block" }, make("h3", { text: `${title}: ${order.length}${rows.some((row) => row.iteration) ? ", earliest first" : ""}` }),
        make("div", { class: "rows", role: "region", tabindex: "0", "aria-label": title }, ...rows.map((place) => drawRow(place, order)))));
    }
  }

  async function loadTrail(place, number) {
    const id = `trails-${place.number}-${Math.floor(number / CHUNK)}`;
    if (!loaded.has(id)) {
      const packed = byId(id)?.textContent;
      if (!packed) return null;
      loaded.set(id, await unpack(packed));
    }
    return loaded.get(id)[number % CHUNK];
  }

  const formatUsage = (usage) => formatCost(usage.calls, usage.input_tokens + usage.output_tokens);
  const titled = (title, body) => [make("h4", { text: title }), make("p", { class: "text", text: body })];

  function describeStep(step, question) {
    const skills = step.skills.length ? `, skills: ${step.skills.join(", ")}` : "";
    const heard = step.inbox.map(({ source, text }) => fold(`reads ${source}`, make("p", { class: "text", text: text === question ? "(the question)" : text })));
    const tools = step.tools.map(({ name, arguments: given, result, error }) =>
      fold([make("code", { text: name }), error ? make("span", { class: "fault", text: " failed" }) : null].filter(Boolean),
        make("pre", { text: given }), make("p", { class: "text", text: result })));
    const sent = step.sent.map(({ target, text }) => text === step.output ? make("p", { class: "note", text: `→ ${target}` })
      : fold(`→ tells ${target}`, make("p", { class: "text", text })));
    const said = make("p", step.error === null ? { class: "text", text: step.output } : { class: "text fault", text: step.error });
    const scores = Object.entries(step.routing?.scores ?? {}).map(([one, value]) => `${step.routing.chosen.includes(one) ? "✓ " : ""}${one} ${value}`).join(", ");
    const name = step.agent === step.node ? step.node : `${step.node} (${step.agent})`;
    return make("li", { class: step.error === null ? null : "failed" },
      make("h4", {}, name, make("small", { text: `${step.visit ? `round ${step.visit + 1}, ` : ""}${formatUsage(step.usage)}${skills}` })),
      ...heard, ...tools, said, step.routing ? make("p", { class: "note", text: `hands on: ${step.routing.why}${scores ? ` (${scores})` : ""}` }) : null, ...sent);
  }

  async function openTrail(place, number, scroll = true, linked = true) {
    const row = place.rows[number];
    const [, , state, score, calls, tokens] = row;
    const part = await loadTrail(place, number);
    const head = [make("h3", { text: `Task ${nameOf(row)}` }),
      make("p", { class: "note", text: `${place.title}: ${WORDS[state]}${score === null ? "" : `, score ${score.toFixed(2)}`}; ${formatCost(calls, tokens)}` })];
    const trail = byId("trail");
    open = { key: place.key, name: nameOf(row), row: describeRow(row) };
    trail.replaceChildren(...head, ...(part ? describeTrail(part) : [make("p", { class: "note", text: "This trail had no room in the page." })]));
    trail.hidden = false;
    markCell(place.key, nameOf(row));
    byId("pick-place").value = place.key;
    fillTasks(place, number);
    if (linked) writeAddress({ task: nameOf(row), at: place.key });
    if (scroll) { trail.scrollIntoView(); trail.focus({ preventScroll: true }); }
  }

  function describeTrail(trail) {
    const answer = trail.error === null ? titled("Answer", trail.answer ?? "(none)") : titled("Error", trail.error);
    const feedback = trail.feedback === null ? [] : titled("What the environment said", trail.feedback.text);
    const overhead = trail.overhead.calls ? [make("p", { class: "note", text: `Beside the steps, the method took ${formatUsage(trail.overhead)}.` })] : [];
    const noted = trail.notes.length ? [fold("What the method noted", ...trail.notes.map((text) => make("pre", { text })))] : [];
    const rounds = trail.picture ? [make("h4", { text: trail.picture.frames.length > 1 ? "Round by round" : trail.picture.frames[0].label }), drawRounds(trail.picture)] : [];
    return [fold("The question", make("p", { class: "text", text: trail.question.input })), ...answer, ...feedback, ...rounds, ...noted,
      make("h4", { text: `${trail.steps.length} steps` }),
      make("ol", { class: "steps" }, ...trail.steps.map((step) => describeStep(step, trail.question.input))), ...overhead];
  }

  function fillTasks(place, number = -1) {
    const choices = place.rows.map((row, one) => make("option", { value: one, "data-name": nameOf(row), text: `${nameOf(row)} (${WORDS[row[2]]})` }));
    byId("pick-task").replaceChildren(make("option", { value: "", text: "choose a task" }), ...choices);
    byId("pick-task").value = number >= 0 ? number : "";
  }

  const describeRow = (row) => JSON.stringify([nameOf(row), ...row.slice(2)]);

  function markCell(at, name) {
    for (const [key, mark] of marks) mark(key === at ? name : null);
  }

  function fillPlaces() {
    byId("pick-place").replaceChildren(...[...places.values()].map((place) => make("option", { value: place.key, text: place.title })));
  }

  function redraw() {
    if (!byId("heat")) return;
    const [at, task] = [byId("pick-place").value, byId("pick-task").selectedOptions[0]?.dataset.name];
    const find = (place, name) => place.rows.findIndex((row) => nameOf(row) === name);
    read();
    drawHeat();
    fillPlaces();
    const place = places.get(at) ?? found[0];
    byId("pick-place").value = place.key;
    fillTasks(place, find(place, task));
    const shown = open && places.get(open.key);
    const number = shown ? find(shown, open.name) : -1;
    if (number < 0) return;
    if (describeRow(shown.rows[number]) === open.row) markCell(open.key, open.name);
    else openTrail(shown, number, false, false);
  }

  function followAddress() {
    const address = readAddress();
    if (!address.has("task")) return;
    const task = address.get("task");
    const there = [...places.values()].reverse();
    const asked = there.filter((one) => one.key === address.get("at"));
    for (const place of [...asked, ...there]) {
      const number = place.rows.findIndex((row) => nameOf(row) === task);
      if (number >= 0) { openTrail(place, number); return; }
    }
    byId("trail").replaceChildren(make("p", { class: "fault", text: `There is no task ${task} in this run.` }));
    byId("trail").hidden = false;
  }

  read();
  if (!found.length) return;
  drawHeat();
  fillPlaces();
  fillTasks(places.get(byId("pick-place").value));
  REDRAWS.set("data-runs", redraw);
  byId("pick-place").addEventListener("change", () => fillTasks(places.get(byId("pick-place").value)));
  byId("pick-task").addEventListener("change", () => {
    if (byId("pick-task").value !== "") openTrail(places.get(byId("pick-place").value), Number(byId("pick-task").value), false);
  });
  byId("pick").addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", followAddress);
  followAddress();
  if (found[0].split === "asked" && !readAddress().has("task")) openTrail(places.get(found[0].key), 0, false, false);
}

PARTS.set("tasks", startTasks);
for (const [id, start] of PARTS) if (byId(id)) start();
