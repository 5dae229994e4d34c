// <mag-tabs data-name="language">: tabs over its [data-tab] panels, arrow keys included. The choice is remembered for the next page.

customElements.define("mag-tabs", class extends HTMLElement {
  connectedCallback() {
    const panels = [...this.querySelectorAll(":scope > [data-tab]")];
    const list = document.createElement("div");
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", this.dataset.label);
    this.tabs = panels.map((panel, index) => {
      const tab = document.createElement("button");
      tab.type = "button";
      tab.id = `${this.dataset.name}-tab-${index}`;
      panel.id ||= `${this.dataset.name}-panel-${index}`;
      tab.textContent = panel.dataset.tab;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", panel.id);
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      panel.querySelector(":scope > [data-tab-title]")?.remove();
      tab.addEventListener("click", () => this.#select(index));
      return tab;
    });
    this.panels = panels;
    list.append(...this.tabs);
    list.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      const next = (this.tabs.indexOf(document.activeElement) + step + this.tabs.length) % this.tabs.length;
      this.#select(next);
      this.tabs[next].focus();
    });
    this.prepend(list);
    const kept = localStorage.getItem(`tabs:${this.dataset.name}`);
    this.#select(Math.max(0, panels.findIndex((panel) => panel.dataset.tab === kept)), false);
  }

  #select(index, keep = true) {
    this.tabs.forEach((tab, position) => {
      tab.setAttribute("aria-selected", String(position === index));
      tab.tabIndex = position === index ? 0 : -1;
      this.panels[position].hidden = position !== index;
    });
    if (keep) localStorage.setItem(`tabs:${this.dataset.name}`, this.panels[index].dataset.tab);
  }
});
