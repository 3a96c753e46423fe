// Calls the core in its worker. A call that takes too long, or breaks the core, ends the worker; the next one starts
// another.

/** Milliseconds. */
const DEADLINE = 10_000;

export class Engine {
  #worker = null;
  #calls = new Map();
  #last = 0;

  /** The result of a call of `worker.js`. */
  call(name, argument) {
    this.#worker ??= this.#start();
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      const late = () =>
        this.#end(`this took longer than ${DEADLINE / 1000} s in the browser and was stopped; try a smaller network`);
      this.#calls.set(id, { resolve, reject, timer: setTimeout(late, DEADLINE) });
      this.#worker.postMessage({ id, name, argument });
    });
  }

  /** Stops what runs; its callers get an error. */
  stop() {
    if (this.#calls.size) this.#end("stopped");
  }

  #start() {
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data }) => this.#take(data));
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      this.#end("the core did not load; `make playground` builds it into the folder core");
    });
    return worker;
  }

  #take({ id, result, error, restart }) {
    const call = this.#calls.get(id);
    if (!call) return;
    clearTimeout(call.timer);
    this.#calls.delete(id);
    if (error === undefined) call.resolve(result);
    else call.reject(new Error(error));
    if (restart) this.#end("stopped");
  }

  #end(why) {
    this.#worker?.terminate();
    this.#worker = null;
    for (const { reject, timer } of this.#calls.values()) {
      clearTimeout(timer);
      reject(new Error(why));
    }
    this.#calls.clear();
  }
}
