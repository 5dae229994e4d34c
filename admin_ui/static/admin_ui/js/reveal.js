// On a narrow screen the side is a strip that scrolls: bring the entry of this page into view.

for (const here of document.querySelectorAll(".side-nav [aria-current]")) here.scrollIntoView({ inline: "center", block: "nearest" });
