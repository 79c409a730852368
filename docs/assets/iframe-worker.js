// Search runs in a worker, which browsers refuse to a page opened from a folder. Such a page runs the worker's
// script in a hidden frame instead, where `postMessage` answers the page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.scope = frame.contentWindow;
      this.scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      this.loaded = new Promise(done => script.addEventListener("load", done));
      script.src = new URL(url, document.baseURI);
      frame.contentDocument.head.append(script);
    }

    async postMessage(data) {
      await this.loaded;
      this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data }));
    }
  };
}
