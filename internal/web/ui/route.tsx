// Addresses: what follows # is a path and a query, so that every page can be shared and the server needs to know none of them.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';

export interface Route {
	path: string; // run/NAME
	params: URLSearchParams;
}

export function parse(hash: string): Route {
	const [path, query] = hash.replace(/^#?\/?/, '').split('?', 2);
	return { path: decodeURI(path), params: new URLSearchParams(query) };
}

export function address(path: string, params?: URLSearchParams): string {
	const query = params?.toString();
	return '#/' + encodeURI(path) + (query ? '?' + query : '');
}

export function useRoute(): Route {
	const [route, setRoute] = useState(() => parse(location.hash));
	useEffect(() => {
		const changed = () => setRoute(parse(location.hash));
		addEventListener('hashchange', changed);
		return () => removeEventListener('hashchange', changed);
	}, []);
	return route;
}

export function Link(props: { to: string; params?: URLSearchParams; class?: string; current?: boolean; children: ComponentChildren }) {
	return (
		<a href={address(props.to, props.params)} class={props.class} aria-current={props.current ? 'page' : undefined}>
			{props.children}
		</a>
	);
}
