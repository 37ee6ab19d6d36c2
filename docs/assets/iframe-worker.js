/* A page opened from disk may start no worker: there, one that runs in a frame takes its place. */
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.frame = frame;
      this.waiting = [];
      this.heard = (event) => {
        if (event.source !== this.inside) return;
        if (event.data === "iframe-worker: ready") {
          const messages = this.waiting;
          this.waiting = null;
          for (const message of messages) this.postMessage(message);
          return;
        }
        const copy = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(copy);
        if (this.onmessage) this.onmessage(copy);
      };
      window.addEventListener("message", this.heard);
      const inside = this.inside.document;
      inside.open();
      inside.write(
        "<script>" +
          "self.postMessage = function (data) { parent.postMessage(data, '*') };" +
          "self.importScripts = function () { for (const url of arguments) document.write('<script src=\"' + url + '\"><\\/script>') };" +
          "</" + "script>" +
          '<script src="' + new URL(url, location.href) + '"></' + "script>" +
          "<script>parent.postMessage('iframe-worker: ready', '*')</" + "script>"
      );
      inside.close();
    }
    postMessage(message) {
      if (this.waiting) this.waiting.push(message);
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data: message }));
    }
    terminate() {
      window.removeEventListener("message", this.heard);
      this.frame.remove();
    }
  };
