// The tab "watch" of a run's page, loaded when it is first opened.

export interface Params {
	run: string;
	checkpoint?: string;
}

/** mount shows a run's policy at play in an element, and returns what ends that. */
export function mount(element: HTMLElement, params: Params): () => void {
	element.textContent = `${params.run} cannot be watched yet.`;
	return () => element.replaceChildren();
}
