// Addresses: what follows # is a path and a query, so that every page can be shared and the server needs to know none of them.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';

export interface Route {
	path: string; // run/NAME
	params: URLSearchParams;
}

export function parse(hash: string): Route {
	const [path, query] = hash.replace(/^#?\/?/, '').split('?', 2);
	try {
		return { path: decodeURIComponent(path), params: new URLSearchParams(query) };
	} catch {
		return { path: '', params: new URLSearchParams() }; // no address of ours
	}
}

export function address(path: string, params?: URLSearchParams): string {
	const query = params?.toString();
	return '#/' + path.split('/').map(encodeURIComponent).join('/') + (query ? '?' + query : '');
}

/** changed returns params with other values; those that are empty are left out. */
export function changed(params: URLSearchParams, values: Record<string, string | number | undefined>): URLSearchParams {
	const next = new URLSearchParams(params);
	for (const [name, value] of Object.entries(values)) {
		if (value === undefined || value === '') next.delete(name);
		else next.set(name, String(value));
	}
	return next;
}

/** go moves to an address; replacing the present one, it leaves no entry in the history. */
export function go(path: string, params?: URLSearchParams, replace = false) {
	if (replace) {
		history.replaceState(null, '', address(path, params));
		dispatchEvent(new HashChangeEvent('hashchange'));
	} else {
		location.hash = address(path, params).slice(1);
	}
}

export function useRoute(): Route {
	const [route, setRoute] = useState(() => parse(location.hash));
	useEffect(() => {
		const moved = () => setRoute(parse(location.hash));
		addEventListener('hashchange', moved);
		return () => removeEventListener('hashchange', moved);
	}, []);
	return route;
}

export function Link(props: { to: string; params?: URLSearchParams; class?: string; current?: boolean; title?: string; children: ComponentChildren }) {
	return (
		<a href={address(props.to, props.params)} class={props.class} title={props.title} aria-current={props.current ? 'page' : undefined}>
			{props.children}
		</a>
	);
}
