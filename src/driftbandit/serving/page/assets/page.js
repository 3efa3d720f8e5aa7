// Keeps the sections of the page up to date: the server draws, this puts the drawings in their places.
"use strict";

const main = document.querySelector("main[data-live]");
const state = document.getElementById("live");

function say(text, kind) {
  state.textContent = text;
  state.className = kind;
}

function follow() {
  const source = new EventSource(main.dataset.live);
  source.addEventListener("open", () => say("live", "on"));
  source.addEventListener("sections", (event) => {
    for (const [name, html] of Object.entries(JSON.parse(event.data))) {
      const section = document.getElementById(name);
      if (section) section.innerHTML = html;
    }
  });
  source.addEventListener("error", () => {
    // The browser tries again by itself, unless it was refused: then the page, loaded anew, says why.
    if (source.readyState === EventSource.CLOSED) {
      say("not live: reload the page", "off");
    } else {
      setTimeout(() => source.readyState === EventSource.CONNECTING && say("connecting …", "off"), 3000);
    }
  });
}

if (main) follow();
