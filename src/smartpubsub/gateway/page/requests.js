// Requests to the server of the page.

// A browser's own text, such as "Failed to fetch", does not say what has failed.
export async function request(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server of this page does not answer; has it ended?");
  }
}
