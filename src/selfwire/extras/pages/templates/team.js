/* The team: a graph whose nodes keep their places, the version's edits, and an agent's card. */

function startTeam() {
  let data = readData("data-team");
  if (!data.versions.length) return;
  const [BOX, HIGH, PAD] = [164, 46, 24];
  const isRun = data.versions[0].number > 0; // rounds of one question, which people read from the first
  const shown = { version: isRun ? 0 : data.versions.length - 1, agent: null };
  const nodes = new Map(), ways = new Map();
  const scrub = byId("scrub");
  let showPictures = startPictures();

  const previous = (place) => data.versions[place - 1] ?? null;

  function splitName(name) {
    const lines = [""];
    for (const part of name.split(/(?<=-)/)) {
      if (lines.at(-1) && lines.at(-1).length + part.length > 23) lines.push("");
      lines[lines.length - 1] += part;
    }
    const cut = (line) => (line.length > 25 ? `${line.slice(0, 24)}…` : line);
    return lines.length > 2 ? [cut(lines[0]), cut(`${lines[1]}…`)] : lines.map(cut);
  }

  function nameNode(group, name) {
    const lines = splitName(name);
    group.replaceChildren(...lines.map((line, place) => draw("text", { y: 4 + (place - (lines.length - 1) / 2) * 15, text: line })));
  }

  function drawNode(name, x, y) {
    const box = { x: -BOX / 2, y: -HIGH / 2, width: BOX, height: HIGH };
    const group = draw("g", { class: "node absent", transform: `translate(${x} ${y})`, role: "button", tabindex: "-1" },
      draw("rect", { class: "halo", x: box.x - 4, y: box.y - 4, width: BOX + 8, height: HIGH + 8, rx: 9 }),
      draw("rect", { ...box, class: "box", rx: 6 }),
      draw("rect", { class: "inner", x: box.x + 3, y: box.y + 3, width: BOX - 6, height: HIGH - 6, rx: 4 }),
      draw("g", { class: "label" }), draw("text", { class: "caption", y: HIGH / 2 - 7, text: "" }), draw("text", { class: "mark", x: BOX / 2 - 9, y: -HIGH / 2 + 14, text: "" }));
    group.addEventListener("click", () => chooseNode(name));
    group.addEventListener("keydown", (event) => moveFocus(event, name));
    nodes.set(name, group);
    return group;
  }

  function curve(points) {
    const ends = points.map(([x, y]) => [x, y]);
    const down = ends[0][1] <= ends.at(-1)[1];
    ends[0][1] += down ? HIGH / 2 : -HIGH / 2;
    ends.at(-1)[1] += down ? -HIGH / 2 - 5 : HIGH / 2 + 5;
    let path = `M${ends[0][0]} ${ends[0][1]}`;
    for (let place = 1; place < ends.length; place++) {
      const [[x1, y1], [x2, y2]] = [ends[place - 1], ends[place]];
      const middle = (y1 + y2) / 2;
      path += `C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
    }
    return path;
  }

  function drawGraph() {
    const { width, height } = data;
    const box = [-BOX / 2 - PAD, -HIGH / 2 - PAD, width + BOX + 2 * PAD, height + HIGH + 2 * PAD];
    const heads = ["", "added", "removed"].map((kind) =>
      draw("marker", { id: `head-${kind || "plain"}`, viewBox: "0 0 8 8", refX: 3, refY: 4, markerWidth: 8, markerHeight: 8,
        markerUnits: "userSpaceOnUse", orient: "auto" }, draw("path", { class: `head ${kind}`, d: "M0 0.5L7 4L0 7.5z" })));
    nodes.clear();
    ways.clear();
    const svg = draw("svg", { viewBox: box.join(" "), role: "group",
      "aria-label": "Agents; the arrow keys go from one to the next" }, draw("defs", {}, ...heads));
    for (const { source, target, points } of data.routes) {
      const way = draw("path", { class: "way absent", d: curve(points) }, draw("title"));
      ways.set(`${source} ${target}`, way);
      svg.append(way);
    }
    for (const [name, [x, y]] of Object.entries(data.nodes)) svg.append(drawNode(name, x, y));
    svg.style.maxWidth = `${box[2]}px`;
    svg.style.minWidth = `${0.85 * box[2]}px`;
    const graph = byId("graph");
    graph.replaceChildren(svg);
    graph.classList.toggle("large", box[3] > 1600);
    const [x] = data.nodes[data.versions.at(-1).entry] ?? Object.values(data.nodes)[0] ?? [0];
    graph.scrollLeft = (x - box[0]) * (svg.clientWidth / box[2]) - graph.clientWidth / 2;
  }

  function kindOfNode(name, now, before) {
    const [here, there] = [now.nodes[name], before?.nodes[name]];
    if (here === undefined) return there === undefined ? "absent" : "removed";
    if (!before) return "";
    if (there === undefined) return "added";
    if (isRun) return here === there ? "" : "added"; // a place with another agent
    return now.rewritten.includes(name) ? "rewritten" : "";
  }

  const MARKS = { added: "+", removed: "−", rewritten: "✎" };
  const WORDS = { added: ", new", removed: ", gone", rewritten: ", rewritten" };

  function showNodes(now, before) {
    const order = Object.entries(data.nodes).sort(([, a], [, b]) => a[1] - b[1] || a[0] - b[0]);
    let first = true;
    for (const [name] of order) {
      const [group, kind] = [nodes.get(name), kindOfNode(name, now, before)];
      const said = (name in now.nodes ? now : before ?? now).names[name] ?? name;
      nameNode(group.querySelector(".label"), said);
      const chosen = now.nodes[name] !== undefined && now.nodes[name] === shown.agent;
      group.setAttribute("class", `node ${kind} ${chosen ? "chosen" : ""}`);
      group.setAttribute("aria-label", `${said}${WORDS[kind] ?? ""}${name === now.entry ? ", entry" : ""}${name === now.sink ? ", answers" : ""}`);
      group.setAttribute("tabindex", kind !== "absent" && first ? "0" : "-1");
      if (kind !== "absent") first = false;
      group.querySelector(".mark").textContent = MARKS[kind] ?? "";
      group.querySelector(".caption").textContent = now.captions[name] ?? "";
      group.classList.toggle("captioned", name in now.captions);
      group.querySelector(".inner").setAttribute("visibility", name === now.sink ? "visible" : "hidden");
      group.children[1].setAttribute("rx", name === now.entry ? HIGH / 2 : 6);
    }
  }

  function showWays(now, before) {
    const [here, there] = [now, before].map((one) => new Map((one?.links ?? []).map(({ source, target, traffic }) => [`${source} ${target}`, traffic])));
    const most = Math.max(1, ...now.links.map((link) => link.traffic));
    for (const [key, way] of ways) {
      const kind = here.has(key) ? (before && !there.has(key) ? "added" : "") : there.has(key) ? "removed" : "absent";
      way.setAttribute("class", `way ${kind}`);
      way.setAttribute("stroke-width", 1 + 3.5 * ((here.get(key) ?? 0) / most));
      way.setAttribute("marker-end", `url(#head-${kind === "absent" ? "plain" : kind || "plain"})`);
      const [source, target] = key.split(" ");
      way.querySelector("title").textContent = `${source} → ${target}: ${formatNumber(here.get(key) ?? 0)} messages per task`;
    }
  }

  function showVersion(number, keep = true) {
    shown.version = Math.min(Math.max(number, 0), data.versions.length - 1);
    const [now, before] = [data.versions[shown.version], previous(shown.version)];
    if (shown.agent && !now.agents[shown.agent]) shown.agent = null;
    scrub.value = shown.version;
    scrub.setAttribute("aria-valuetext", now.label);
    showNodes(now, before);
    showWays(now, before);
    for (const [place, button] of [...document.querySelectorAll(".strip button")].entries()) {
      button.toggleAttribute("aria-current", place === shown.version);
      if (place === shown.version && keep) button.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    fill(byId("version"), describeVersion(now));
    showAgent();
    showPictures(shown.version);
    if (!keep) return;
    shown.chosen = true;
    writeAddress({ version: now.number, agent: shown.agent });
  }

  function verdictOf(one) {
    if (one.accepted === null) return make("p", { class: "text", text: one.why });
    const look = { accepted: "kept-word", rejected: "rejected-word" }[one.outcome] ?? "";
    const word = make("span", { class: look, text: one.outcome });
    return make("p", {}, word, `: ${one.why}`, one.difference ? `. Gain ${formatInterval(one.difference)} on ${one.difference.n} tasks.` : "");
  }

  function describeVersion(one) {
    const title = make("h3", { text: one.label });
    const most = data.largest === one.number ? make("p", { text: "No other step gained as much at the gate." }) : null;
    const head = one.edits.length ? make("h4", { text: one.accepted ? "What was changed, and why" : "What was proposed, and why" }) : null;
    return [title, verdictOf(one), most, head, ...one.edits.map((edit) => describeEdit(edit, one))].filter(Boolean);
  }

  function describeEdit(edit, one) {
    const title = [make("b", { text: edit.operation.replaceAll("_", " ").toLowerCase() || "edit" }),
      make("span", { class: "by", text: edit.by ? ` proposed by ${edit.by}` : "" })];
    if (edit.refused) title.push(make("span", { class: "rejected-word", text: ` refused: ${edit.refused}` }));
    const kinds = { "+": ["gained", "+"], "-": ["lost", "−"], "=": ["", ""], " ": ["said", ""] };
    const lines = edit.lines.map(({ sign, text }) =>
      make("li", { class: kinds[sign][0], "data-sign": kinds[sign][1], text }));
    const folded = fold(title, make("p", { class: "text", text: edit.why }), make("ul", { class: "diff" }, ...lines));
    folded.open = one.edits.length < 4;
    return folded;
  }

  function showAgent() {
    const card = byId("agent");
    const agent = shown.agent && data.versions[shown.version].agents[shown.agent];
    card.hidden = !agent;
    if (!agent) return;
    const facts = Object.entries({ kind: agent.kind, tools: agent.tools.join(", ") || "none",
      "cost per task": agent.runs ? formatCost(agent.calls, agent.tokens) : "not run", ...agent.learned });
    fill(card, [
      make("h3", { text: shown.agent }),
      ...(agent.role ? [make("p", { text: agent.role })] : []),
      make("dl", { class: "facts" }, ...facts.map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { text: value })))),
      make("h4", { text: "Prompt" }), make("p", { class: "text", text: agent.prompt }),
      ...agent.memory.map((note) => make("p", { class: "text", text: note })),
      make("button", { type: "button", text: "Close", onclick: () => { shown.agent = null; showVersion(shown.version); } })]);
  }

  function chooseNode(name) {
    const agent = data.versions[shown.version].nodes[name] ?? null;
    shown.agent = agent === shown.agent ? null : agent;
    showVersion(shown.version);
  }

  function moveFocus(event, name) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      chooseNode(name);
      return;
    }
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const there = Object.entries(data.nodes).sort(([, a], [, b]) => a[1] - b[1] || a[0] - b[0])
      .map(([one]) => one).filter((one) => !nodes.get(one).classList.contains("absent"));
    const next = there[(there.indexOf(name) + step + there.length) % there.length];
    nodes.get(name).setAttribute("tabindex", "-1");
    nodes.get(next).setAttribute("tabindex", "0");
    nodes.get(next).focus();
  }

  function drawStrip() {
    byId("moves").hidden = data.versions.length === 1;
    byId("strip").replaceChildren(...data.versions.map((one, place) => {
      const kind = { accepted: "kept", rejected: "rejected" }[one.outcome] ?? "";
      const mark = { kept: "✓ ", rejected: "× " }[kind] ?? "";
      const gain = one.difference ? formatGain(one.difference.value) : one.accepted === null && !one.number ? "start" : one.tag;
      const said = `${isRun ? "round" : "version"} ${one.number}${one.outcome && `, ${one.outcome}`}${one.difference ? `, gain ${gain}` : ""}`;
      return make("li", {}, make("button", { type: "button", class: kind, "aria-label": said, onclick: () => showVersion(place) },
        String(one.number), make("span", { text: mark + gain })));
    }));
  }

  function followAddress() {
    const address = readAddress();
    if (!address.has("version")) return false;
    const place = data.versions.findIndex((one) => one.number === Number(address.get("version")));
    shown.agent = address.get("agent");
    shown.chosen = true;
    showVersion(place < 0 ? data.versions.length - 1 : place, false);
    byId("team").scrollIntoView();
    return true;
  }

  function redraw() {
    if (!byId("graph")) return;
    const before = JSON.stringify([data.nodes, data.routes]);
    const newest = shown.version === data.versions.length - 1 && !shown.chosen;
    data = readData("data-team");
    showPictures = startPictures();
    scrub.max = data.versions.length - 1;
    if (JSON.stringify([data.nodes, data.routes]) !== before) drawGraph();
    drawStrip();
    showVersion(newest ? data.versions.length - 1 : shown.version, false);
  }

  drawGraph();
  drawStrip();
  REDRAWS.set("data-team", redraw);
  REDRAWS.set("data-pictures", redraw);
  scrub.addEventListener("input", () => showVersion(Number(scrub.value)));
  byId("back").addEventListener("click", () => showVersion(shown.version - 1));
  byId("on").addEventListener("click", () => showVersion(shown.version + 1));
  window.addEventListener("hashchange", followAddress);
  if (!followAddress()) showVersion(shown.version, false);
}

PARTS.set("team", startTeam);
