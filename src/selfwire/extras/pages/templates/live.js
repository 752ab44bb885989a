/* A page that follows its run. What has changed is put in place; what the reader has opened, chosen or scrolled to stays. */

function startLive() {
  const line = byId("live");
  let served = copyParts(document), stamp = line.dataset.stamp, events = null, busy = false, wanted = null;

  /* The page as it was served, without what scripts have drawn since. */
  function copyParts(page) {
    return { title: page.title, header: page.querySelector("header").cloneNode(true), main: page.getElementById("main").cloneNode(true) };
  }

  function listen() {
    if (events || document.hidden) return;
    events = new EventSource(`${location.pathname.replace(/\/$/, "")}/events?stamp=${stamp}`);
    events.addEventListener("line", (event) => keepInSight(() => showLine(JSON.parse(event.data))));
    events.addEventListener("page", (event) => follow(event.data));
    events.addEventListener("error", () => {
      showFault("This page is not connected; it follows again when selfwire view is there.");
      if (events?.readyState !== EventSource.CLOSED) return; // else it tries again by itself
      stopListening();
      setTimeout(listen, 3000);
    });
  }

  function stopListening() {
    events?.close();
    events = null;
  }

  function showFault(text) {
    line.hidden = false;
    byId("live-fault").textContent = text;
  }

  function showLine(now) {
    showFault(now.fault);
    if (now.status === undefined) {
      line.hidden = !now.fault;
      return;
    }
    const texts = { status: now.status, where: now.where, done: now.total ? `${now.done} of ${now.total}` : "", spend: now.spend };
    for (const [name, text] of Object.entries(texts)) {
      const place = byId(`live-${name}`);
      if (place.textContent !== text) place.textContent = text;
    }
    const bar = byId("live-bar");
    bar.hidden = !now.total;
    bar.max = now.total || 1;
    bar.value = now.done;
  }

  async function follow(asked) {
    wanted = asked;
    if (busy || asked === stamp) return;
    busy = true;
    try {
      const reply = await fetch(location.pathname, { cache: "no-store" });
      if (reply.ok) putInPlace(new DOMParser().parseFromString(await reply.text(), "text/html"));
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // the server has gone, which the events say too
    } finally {
      busy = false;
    }
    if (wanted !== asked) follow(wanted);
  }

  function putInPlace(next) {
    if (next.scripts[next.scripts.length - 1].textContent !== document.scripts[document.scripts.length - 1].textContent) {
      location.reload();
      return;
    }
    const fresh = copyParts(next);
    stamp = next.getElementById("live").dataset.stamp;
    keepInSight(() => keepOpen(() => {
      const changed = putData(next);
      document.title = fresh.title;
      if (!served.header.isEqualNode(fresh.header)) change(document.querySelector("header"), fresh.header);
      const started = putSections(fresh.main);
      redraw(changed, started);
    }));
    served = fresh;
  }

  /* Data stand in scripts that are not run; returns the ids of those that have changed. */
  function putData(next) {
    const data = (page) => new Map([...page.querySelectorAll("script[id]")].map((one) => [one.id, one]));
    const [old, fresh] = [data(document), data(next)];
    for (const [id, one] of old) if (!fresh.has(id)) one.remove();
    const changed = [];
    for (const [id, one] of fresh) {
      if (old.get(id)?.textContent === one.textContent) continue;
      changed.push(id);
      if (old.has(id)) old.get(id).textContent = one.textContent;
      else document.body.insertBefore(document.importNode(one, true), document.scripts[document.scripts.length - 1]);
    }
    return changed.filter((id) => id.startsWith("data-"));
  }

  /* Sections that scripts draw are left to them; returns the ids of those that are new. */
  function putSections(fresh) {
    const sections = (main) => [...main.children].filter((one) => one.id);
    const [main, was] = [byId("main"), new Map(sections(served.main).map((one) => [one.id, one]))];
    for (const one of sections(main)) if (!sections(fresh).some((other) => other.id === one.id)) one.remove();
    const started = [];
    let after = null;
    for (const one of sections(fresh)) {
      let here = byId(one.id);
      if (!here) {
        here = document.importNode(one, true);
        if (after) after.after(here);
        else main.prepend(here);
        started.push(one.id);
      } else if (!PARTS.has(one.id) && !was.get(one.id)?.isEqualNode(one)) {
        change(here, one);
      }
      after = byId(one.id);
    }
    return started;
  }

  function redraw(changed, started) {
    for (const id of started) PARTS.get(id)?.();
    if (!started.length && changed.some((id) => !REDRAWS.has(id))) location.reload();
    for (const act of new Set(changed.map((id) => REDRAWS.get(id)))) act?.();
  }

  /* Makes an element like another one, and touches only what differs, so that focus and selection stay. */
  function change(here, next) {
    if (here.isEqualNode(next)) return;
    const [old, fresh] = [[...here.childNodes], [...next.childNodes]];
    if (here.nodeName !== next.nodeName || here.nodeType !== Node.ELEMENT_NODE || old.length !== fresh.length) {
      here.replaceWith(document.importNode(next, true));
      return;
    }
    for (const { name, value } of [...next.attributes]) if (here.getAttribute(name) !== value) here.setAttribute(name, value);
    for (const { name } of [...here.attributes]) if (!next.hasAttribute(name) && name !== "open") here.removeAttribute(name);
    old.forEach((child, place) => change(child, fresh[place]));
  }

  /* An open trail that is in sight stays there, or what stands at the top of the window. */
  function keepInSight(act) {
    const place = (one) => one.getBoundingClientRect();
    const marks = [...document.querySelectorAll("main [id]")].filter((one) => !one.closest("svg"));
    const mark = [...document.querySelectorAll("#trail")].find((one) => !one.hidden && place(one).bottom > 0 && place(one).top < innerHeight)
      ?? marks.filter((one) => place(one).top <= 1 && place(one).bottom > 1).at(-1);
    const before = mark && place(mark).top;
    act();
    const here = mark && (mark.isConnected ? mark : byId(mark.id));
    if (here) window.scrollBy({ top: place(here).top - before, behavior: "instant" });
  }

  /* Folds stay as they are, and what scrolls by itself stays where it is. */
  function keepOpen(act) {
    const folds = new Map([...document.querySelectorAll("details")].map((one) => [nameFold(one), one.open]));
    const scrollers = () => [...document.querySelectorAll(".scroll, .strip, .panels, .rows")];
    const scrolled = new Map(scrollers().map((one) => [nameScroller(one), [one.scrollLeft, one.scrollTop]]));
    act();
    for (const one of document.querySelectorAll("details")) one.open = folds.get(nameFold(one)) ?? one.open;
    for (const one of scrollers()) {
      const [left, top] = scrolled.get(nameScroller(one)) ?? [one.scrollLeft, one.scrollTop];
      one.scrollTo({ left, top, behavior: "instant" });
    }
  }

  const nameScroller = (one) => one.id || one.getAttribute("aria-label") || one.className;
  const nameFold = (one) => `${one.closest("[id]")?.id} ${one.querySelector("summary")?.textContent}`;

  document.addEventListener("visibilitychange", () => (document.hidden ? stopListening() : listen()));
  listen();
}

startLive();
