// Numbers, durations and times as people read them.

import { useEffect, useState } from 'preact/hooks';
import type { State } from './api';

const none = '–';

/** number writes four significant digits. */
export function number(v: number | null | undefined): string {
	if (v === null || v === undefined || !Number.isFinite(v)) return none;
	const size = Math.abs(v);
	if (size !== 0 && (size < 1e-3 || size >= 1e9)) return v.toExponential(2).replace('e+', 'e');
	const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4;
	return v.toLocaleString('en', { maximumFractionDigits: digits });
}

/** short writes a large number in thousands, millions or billions. */
export function short(v: number | null | undefined): string {
	if (v === null || v === undefined || !Number.isFinite(v)) return none;
	const size = Math.abs(v);
	if (size !== 0 && size < 1e-3) return v.toExponential(1).replace('e+', 'e');
	return v.toLocaleString('en', { notation: 'compact', maximumSignificantDigits: 4 });
}

/** duration writes the two largest units. */
export function duration(seconds: number | null | undefined): string {
	if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return none;
	const units: [number, string][] = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
	let rest = Math.round(seconds);
	const parts: string[] = [];
	for (const [size, unit] of units) {
		const n = Math.floor(rest / size);
		if (n > 0 || (size === 1 && parts.length === 0)) parts.push(`${n} ${unit}`);
		else if (parts.length > 0) break;
		rest -= n * size;
		if (parts.length === 2) break;
	}
	return parts.join(' ');
}

export function bytes(n: number): string {
	return n < 1000 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`;
}

/** exact writes a time with its zone. */
export function exact(time: Date): string {
	const two = (n: number) => String(n).padStart(2, '0');
	const offset = -time.getTimezoneOffset();
	const zone = (offset < 0 ? '-' : '+') + two(Math.floor(Math.abs(offset) / 60)) + two(Math.abs(offset) % 60);
	return (
		`${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ` +
		`${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())} ${zone} (${Intl.DateTimeFormat().resolvedOptions().timeZone})`
	);
}

export function ago(time: Date, now: number): string {
	const seconds = (now - time.getTime()) / 1000;
	return seconds < 5 ? 'now' : duration(seconds).split(' ').slice(0, 2).join(' ') + ' ago';
}

/** Ago is a time relative to now, which goes on; its title is the exact time. */
export function Ago(props: { time?: string }) {
	const [now, setNow] = useState(Date.now());
	useEffect(() => {
		const timer = setInterval(() => setNow(Date.now()), 5000);
		return () => clearInterval(timer);
	}, []);
	if (!props.time) return <>{none}</>;
	const time = new Date(props.time);
	return (
		<time dateTime={props.time} title={exact(time)}>
			{ago(time, Math.max(now, Date.now() - 5000))}
		</time>
	);
}

const symbols: Record<State, string> = { queued: '…', running: '▶', lost: '!', paused: '‖', stopped: '■', done: '✓', failed: '✕', cancelled: '⊘' };

/** end is where the part of a name begins that tells it from others: behind the last slash or blank, but for what follows in parentheses. */
export function end(name: string): number {
	return Math.max(0, name.search(/[^\s/]+( \([^)]*\))?$/));
}

/** Cut is a name whose end stays where there is no room for all of it. */
export function Cut(props: { text: string }) {
	const at = end(props.text);
	return (
		<span class="cut">
			<span>{props.text.slice(0, at)}</span>
			<span>{props.text.slice(at)}</span>
		</span>
	);
}

/** Badge shows a state by its colour, a symbol and its name. */
export function Badge(props: { state: State; count?: number; reason?: string }) {
	return (
		<span class={'badge ' + props.state} title={props.reason}>
			<span aria-hidden="true">{symbols[props.state]}</span> {props.count !== undefined && props.count + ' '}
			<span class="word">{props.state}</span>
		</span>
	);
}
