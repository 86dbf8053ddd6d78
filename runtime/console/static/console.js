// What the pages do beyond htmx: a menu, choices that are sent at once, questions before deeds,
// charts drawn from their own tables. Every page works without it.
"use strict";

(() => {
  const menu = document.querySelector(".menu");
  menu?.addEventListener("click", () => {
    const open = document.getElementById("menu").classList.toggle("open");
    menu.setAttribute("aria-expanded", String(open));
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });

  // A person looks at moments in the time of where they are.
  const localised = (root) => {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.dataset.local = "yes";
      time.title = `${at.toLocaleString()} (${time.title})`;
    }
  };

  // A part that renews itself stands still while nobody looks, or while somebody is in it.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.detail.elt;
    if (!part.hasAttribute("data-live")) return;
    const selected = document.getSelection();
    const isRead = selected && !selected.isCollapsed && part.contains(selected.anchorNode);
    if (document.hidden || isRead || part.contains(document.activeElement)) event.preventDefault();
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    localised(event.detail.elt);
    drawn(event.detail.elt);
    const words = event.detail.elt.querySelector?.("[data-say]")?.textContent ?? "";
    const said = document.getElementById("said");
    if (words && said && said.textContent !== words) said.textContent = words;
  });

  // A part that cannot be renewed says since when it stands as it is.
  const stale = document.getElementById("stale");
  let renewed = new Date();
  document.addEventListener("htmx:afterRequest", (event) => {
    // The event's own element is another one where the part was replaced.
    const part = event.detail.requestConfig?.elt ?? event.detail.elt;
    if (!stale || !part.hasAttribute("data-live")) return;
    if (event.detail.successful) renewed = new Date();
    const words = `The sidecar does not answer. This is how it was at ${renewed.toLocaleTimeString()}.`;
    if (stale.hidden === event.detail.successful) return;
    stale.hidden = event.detail.successful;
    stale.textContent = event.detail.successful ? "" : words;
  });

  // What cannot be undone is asked once more, in a dialog that keyboards and readers know.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    // Of several buttons each may ask in words of its own.
    const asked = event.submitter?.dataset.confirm ?? form.dataset.confirm;
    if (!asked || form.dataset.confirmed) return;
    event.preventDefault();
    const dialog = document.createElement("dialog");
    const words = document.createElement("p");
    words.textContent = asked;
    words.id = "confirm-words";
    dialog.setAttribute("aria-labelledby", words.id);
    const actions = document.createElement("div");
    actions.className = "actions";
    const button = (label, kind, act) => {
      const made = document.createElement("button");
      made.type = "button";
      made.className = `button ${kind}`;
      made.textContent = label;
      made.addEventListener("click", () => { dialog.close(); act(); });
      actions.append(made);
      return made;
    };
    const back = button("Cancel", "", () => {});
    const label = event.submitter?.textContent.trim() || "Go on";
    button(label, event.submitter?.classList.contains("danger") ? "danger" : "primary", () => {
      form.dataset.confirmed = "yes";
      form.requestSubmit(event.submitter ?? undefined);
      // Who comes back to this page is asked again.
      delete form.dataset.confirmed;
    });
    dialog.append(words, actions);
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    back.focus();
  });

  // What takes long says line by line how far it is, and stops when whoever waits has it stop.
  const follow = async (form, button) => {
    const place = document.getElementById(button.dataset.lines);
    const waits = document.getElementById(button.dataset.progress);
    const [bar, told, stop] = ["progress", "span", "button"].map((name) => waits.querySelector(name));
    const ending = new AbortController();
    const end = () => ending.abort();
    const show = (line) => {
      if (line.progress) {
        bar.value = line.progress.permille;
        told.textContent = `${line.progress.calls.toLocaleString()} calls replayed`;
        return;
      }
      place.innerHTML = line.html;
      localised(place);
      drawn(place);
      document.getElementById("said").textContent = place.querySelector("[data-say]")?.textContent ?? "";
    };
    button.disabled = true;
    waits.hidden = false;
    bar.removeAttribute("value");
    told.textContent = "";
    stop.addEventListener("click", end);
    window.addEventListener("pagehide", end);
    try {
      const answer = await fetch(button.formAction, {
        method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "HX-Request": "true" }, signal: ending.signal,
      });
      if (answer.status === 401) return location.reload();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let left = ""; ;) {
        const { value, done } = await reader.read();
        const lines = (left + (value ?? "")).split("\n");
        left = done ? "" : lines.pop();
        for (const line of lines) if (line) show(JSON.parse(line));
        if (done) break;
      }
    } catch (error) {
      if (!ending.signal.aborted) show({ html: '<p class="notice stale" role="alert">The preview came to no end. Try it again.</p>' });
    } finally {
      button.disabled = false;
      waits.hidden = true;
      stop.removeEventListener("click", end);
      window.removeEventListener("pagehide", end);
    }
  };
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button?.dataset.lines) return;
    event.preventDefault();
    follow(event.target, button);
  });

  const words = {
    cost_microusd: (value) => `$${(value / 1e6).toLocaleString(undefined, { maximumSignificantDigits: 3 })}`,
    bytes: (value) => {
      const steps = ["B", "KiB", "MiB", "GiB", "TiB"];
      let rank = 0;
      while (value >= 1024 && rank < steps.length - 1) { value /= 1024; rank += 1; }
      return `${value.toLocaleString(undefined, { maximumFractionDigits: 1 })} ${steps[rank]}`;
    },
    percent: (value) => `${value} %`,
    ms: (value) => (value < 1000 ? `${value} ms` : `${(value / 1000).toLocaleString()} s`),
  };
  const worded = (unit) => (value) => {
    if (value === null || value === undefined) return "–";
    const kind = unit === "cost_microusd" ? unit : unit.split("_").pop();
    return (words[kind] ?? ((number) => number.toLocaleString()))(value);
  };

  const drawn = (root) => {
    if (typeof uPlot === "undefined") return;
    for (const figure of root.querySelectorAll("figure.chart:not([data-drawn])")) draw(figure);
  };
  const draw = (figure) => {
    const rows = [...figure.querySelectorAll("tbody tr")];
    const place = figure.querySelector(".plot");
    if (rows.length < 2 || !place.clientWidth) return;
    figure.dataset.drawn = "yes";
    const cell = (node) => { const held = node.querySelector("data"); return held ? Number(held.value) : null; };
    const isTime = figure.dataset.x === "time";
    const columns = [...figure.querySelectorAll("thead th")].map((_, at) => rows.map((row) => cell(row.cells[at])));
    columns[0] = columns[0].map((at) => at / 1000);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => {
      // uPlot paints on a canvas, which knows nothing of variables.
      const probe = document.createElement("span");
      probe.className = "hidden";
      probe.style.color = `var(--${name})`;
      document.body.append(probe);
      const found = getComputedStyle(probe).color;
      probe.remove();
      return found || style.color;
    };
    const heads = [...figure.querySelectorAll("thead th")].slice(1);
    const shades = ["used", "near", "full", "busy"];
    const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    const units = heads.map((head) => head.dataset.unit ?? "");
    const scales = { x: { time: isTime } };
    const axes = [{ ...axis, values: isTime ? undefined : (_, ticks) => ticks.map((at) => `${at} s`) }];
    [...new Set(units)].forEach((unit, at) => {
      scales[unit || "y"] = { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] };
      // Bytes are counted in powers of two, so that is where the lines stand.
      const steps = unit.endsWith("_bytes") ? { incrs: Array.from({ length: 50 }, (_, power) => 2 ** power) } : {};
      axes.push({ ...axis, ...steps, scale: unit || "y", side: at ? 1 : 3, size: 68, grid: at ? { show: false } : axis.grid, values: (_, ticks) => ticks.map(worded(unit)) });
    });
    const series = heads.map((head, at) => ({
      label: head.textContent, scale: units[at] || "y", stroke: colour(shades[at % shades.length]), width: 1.75,
      dash: at ? [6, 3] : undefined, points: { show: rows.length < 20 }, value: (_, value) => worded(units[at])(value),
    }));
    const about = isTime ? {} : { label: "After", value: (_, value) => (value === null ? "–" : `${value} s`) };
    const plot = new uPlot({ width: place.clientWidth, height: Number(figure.dataset.height ?? 180), scales, axes, series: [about, ...series], cursor: { drag: { x: true, y: false } } }, columns, place);
    new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: plot.height })).observe(place);
  };

  localised(document);
  drawn(document);
})();
