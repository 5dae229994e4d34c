// What scripts say, in the language of the page. English is in the scripts, `{0}` stands for the first value.

const GERMAN = {
  "Copied": "Kopiert",
  "Selected: press Ctrl C": "Markiert: Strg C drücken",
  "Connecting": "Verbindet",
  "The console does not respond: move it again to see what that would do. Nothing was moved.": "Die Konsole antwortet nicht: Verschieben Sie ihn noch einmal, um zu sehen, was das täte. Nichts wurde verschoben.",
  "Live": "Live",
  "Stale: no data since {0}": "Veraltet: keine Daten seit {0}",
  "Broker not responding: no data since {0}": "Broker antwortet nicht: keine Daten seit {0}",
  "Broker not responding": "Broker antwortet nicht",
  "Connection lost: no data since {0}": "Verbindung verloren: keine Daten seit {0}",
  "Connection lost": "Verbindung verloren",
  "Access ended: reload": "Zugriff beendet: neu laden",
  "Problems are unknown: {0}": "Probleme sind unbekannt: {0}",
  "Problems are unknown: the console does not respond.": "Probleme sind unbekannt: Die Konsole antwortet nicht.",
  "Too many attempts: wait a minute.": "Zu viele Versuche: Warten Sie eine Minute.",
  "The server did not respond.": "Der Server hat nicht geantwortet.",
  "The device gave no key. Try again.": "Das Gerät gab keinen Schlüssel. Versuchen Sie es noch einmal.",
  "Received 1 message": "1 Nachricht empfangen",
  "Received {0} messages": "{0} Nachrichten empfangen",
  "The last one arrived before {0}; {1} stored.": "Die letzte kam vor {0}; {1} gespeichert.",
  "This page is watching the topic. Run the program; there is no need to reload.": "Diese Seite beobachtet das Topic. Starten Sie das Programm; neu laden ist nicht nötig.",
  "The broker is not responding. Retrying.": "Der Broker antwortet nicht. Neuer Versuch.",
  "The connection to the console was lost. Reconnecting.": "Die Verbindung zur Konsole ging verloren. Verbindet neu.",
  "No data from the broker for some seconds. Waiting.": "Seit einigen Sekunden keine Daten vom Broker. Wartet.",
  "You no longer have access to this namespace. Reload the page.": "Sie haben keinen Zugriff mehr auf diesen Namespace. Laden Sie die Seite neu.",
  "Connecting to the broker.": "Verbindet mit dem Broker.",
  "Nothing was sent: the console does not respond. What you typed is still here; try again in a moment.": "Nichts wurde gesendet: Die Konsole antwortet nicht. Ihre Eingaben sind noch da; versuchen Sie es gleich noch einmal.",
  "Not refreshed since {0}: the console does not respond. This page goes on by itself.": "Nicht aktualisiert seit {0}: Die Konsole antwortet nicht. Diese Seite macht von selbst weiter.",
  "as of {0}": "Stand: {0}",
  "Theme: {0}": "Farbschema: {0}",
  "Theme: {0}. Change": "Farbschema: {0}. Ändern",
  "Searching": "Sucht",
  "The console is not responding.": "Die Konsole antwortet nicht.",
  "{0} of {1} topics": "{0} von {1} Topics",
  "No topics match \u201c{0}\u201d.": "Keine Topics passen zu \u201e{0}\u201c.",
  "{0} partitions of {1}": "{0} Partitionen von {1}",
  "{0} at {1}: {2}": "{0} um {1}: {2}",
  ", compared {0}": ", verglichen {0}",
  "{0} to {1} selected": "{0} bis {1} ausgew\u00e4hlt",
  "in {0}": "in {0}",
  "{0} ago": "vor {0}",
  "{0} delivered to consumers.": "{0} an Consumer zugestellt.",
  "now {0}, highest in two minutes {1}": "jetzt {0}, höchster Wert in zwei Minuten {1}",
  "no data yet": "noch keine Daten",
  "as the system": "wie das System",
  "light": "hell",
  "dark": "dunkel",
};

const german = document.documentElement.lang === "de";

export function say(text, ...values) {
  const said = german ? GERMAN[text] ?? text : text;
  return said.replace(/\{(\d)\}/g, (_, index) => values[index]);
}
