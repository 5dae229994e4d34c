// A page that answers a form with a secret: reloading it must ask for the page, not send the form again.

history.replaceState(null, "", location.href);
