// Search on pages that are opened as files: browsers do not start a worker from file://, so this class runs the
// worker's script in a hidden frame. The worker of Material for MkDocs asks for a global of this name.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inside = this.frame.contentWindow;
    inside.postMessage = (data) =>
      window.setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
    inside.importScripts = (...urls) =>
      urls.reduce((done, each) => done.then(() => IFrameWorker.load(inside, each)), Promise.resolve());
    this.ready = IFrameWorker.load(inside, url);
  }

  static load(inside, url) {
    return new Promise((resolve, reject) => {
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${url} cannot be loaded`));
      inside.document.body.append(script);
    });
  }

  postMessage(data) {
    const inside = this.frame.contentWindow;
    this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

window.IFrameWorker = IFrameWorker;
if (location.protocol === "file:") {
  window.Worker = IFrameWorker;
}
