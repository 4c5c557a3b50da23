// A chart of curves with their intervals, drawn by uPlot, with a legend that has the values under the cursor.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { Cut, duration, number, short } from './format';
import { smooth } from './smooth';
import { useTheme } from './theme';

export interface Line {
	name: string;
	value: (number | null)[];
	low?: (number | null)[];
	high?: (number | null)[];
	count?: number[]; // runs at each place
	runs?: number; // of the group
}

/** style returns a curve's colour, as a variable of the style sheet, and its dashes: no two of twelve agree in both. */
export function style(i: number): { color: string; dash: number[] } {
	const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
	return { color: `--curve-${i % 6}`, dash: dashes[i % 4] };
}

/** Swatch is a piece of a curve. */
export function Swatch(props: { index: number }) {
	const { color, dash } = style(props.index);
	return (
		<svg class="swatch" viewBox="0 0 24 8" aria-hidden="true">
			<line x1="0" y1="4" x2="24" y2="4" stroke={`var(${color})`} stroke-width="2.5" stroke-dasharray={dash.join(' ')} />
		</svg>
	);
}

export function Chart(props: {
	title: string;
	help?: string;
	x: number[];
	lines: Line[];
	axis: string; // iterations, steps or time
	height: number;
	smoothing?: number;
	log?: boolean;
	sync?: string; // charts of the same name have their cursors at the same place
	zoom?: (from: number, to: number) => void; // instead of the chart's own
}) {
	const element = useRef<HTMLDivElement>(null);
	const figure = useRef<HTMLElement>(null);
	const { dark } = useTheme();
	const plot = useRef<uPlot | null>(null);
	const visible = useRef(true);
	const draw = useRef(() => {}); // what has come while the chart was out of sight
	const { x, lines, axis } = props;
	const data = useMemo(() => {
		const columns: (number | null)[][] = [x];
		const positive = (values: (number | null)[]) => (props.log ? values.map((v) => (v !== null && v > 0 ? v : null)) : values);
		for (const line of lines) {
			for (const values of [line.value, line.low, line.high]) {
				columns.push(positive(smooth(values ?? line.value, props.smoothing ?? 0)));
			}
		}
		return columns as uPlot.AlignedData;
	}, [x, lines, props.smoothing, props.log]);

	const alone = lines.length === 1 && lines[0].name === props.title; // needs no legend
	const nothing = props.log && lines.length > 0 && lines.every((_, i) => (data[3 * i + 1] as (number | null)[]).every((v) => v === null));
	const shape = [lines.map((l) => l.name).join('\n'), axis, props.log, props.height, dark].join('|');
	useEffect(() => {
		const chart = new uPlot(options(props, element.current!, (u) => describe(u, figure.current!, lines, axis)), data, element.current!);
		plot.current = chart;
		const observer = new ResizeObserver(([entry]) => chart.setSize({ width: Math.max(120, entry.contentRect.width), height: props.height }));
		observer.observe(element.current!);
		const sight = new IntersectionObserver(([entry]) => {
			visible.current = entry.isIntersecting;
			if (visible.current) draw.current();
		});
		sight.observe(element.current!);
		return () => {
			observer.disconnect();
			sight.disconnect();
			chart.destroy();
		};
	}, [shape]);
	useEffect(() => {
		draw.current = () => {
			draw.current = () => {};
			plot.current!.setData(data);
			describe(plot.current!, figure.current!, lines, axis);
		};
		if (visible.current) draw.current();
	}, [data]);

	const key = (event: KeyboardEvent) => {
		const u = plot.current!;
		const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
		if (step !== 0 && x.length > 0) {
			const at = Math.min(x.length - 1, Math.max(0, (u.cursor.idx ?? (step > 0 ? -1 : x.length)) + step));
			u.setCursor({ left: u.valToPos(x[at], 'x'), top: u.over.clientHeight / 2 });
			event.preventDefault();
		} else if (event.key === 'Escape') {
			u.setData(u.data, true);
			props.zoom?.(NaN, NaN);
		}
	};
	return (
		<figure class="chart" ref={figure}>
			<figcaption>
				<span class={props.help && 'helped'} title={props.help}>
					{props.title}
				</span>
				<span class="place">
					{alone && <strong />} <span />
				</span>
			</figcaption>
			<div
				class="plot"
				ref={element}
				style={{ height: props.height + 'px' }}
				tabIndex={0}
				role="img"
				aria-label={`${props.title}. Arrow keys move the cursor, Escape shows all.`}
				onKeyDown={key}
			/>
			{nothing && <p class="empty">No value is positive: there is nothing to draw on a log scale.</p>}
			{!alone && (
				<dl class="legend">
					{lines.map((line, i) => (
						<div key={line.name} title={line.name}>
							<dt>
								<Swatch index={i} />
								<Cut text={line.name} />
							</dt>
							<dd>&nbsp;</dd>
						</div>
					))}
				</dl>
			)}
		</figure>
	);
}

/** describe writes the values under the cursor, or the last ones, into the legend or, of a single curve, the caption. */
function describe(u: uPlot, figure: HTMLElement, lines: Line[], axis: string) {
	const at = u.cursor.idx;
	const cells = figure.querySelectorAll('dd, .place strong');
	lines.forEach((line, i) => {
		let k = at ?? line.value.length - 1;
		if (at === null || at === undefined) while (k > 0 && line.value[k] === null) k--;
		const [value, low, high] = [1, 2, 3].map((c) => u.data[3 * i + c]?.[k]);
		let text = number(value);
		if (line.low && low !== null && low !== undefined) text += ` [${number(low)}, ${number(high)}]`;
		if (line.count && line.count[k] > 0 && line.count[k] !== line.runs) text += `, ${line.count[k]} of them`;
		if (cells[i]) cells[i].textContent = text;
		if (i === 0) figure.querySelector('.place > span')!.textContent = 'at ' + place(u.data[0][k], axis);
	});
}

/** range returns the ends of the vertical axis: the values with some room, more for intervals, which may be far wider than the curves. */
function range(low: number | null, high: number | null, log?: boolean, intervals?: boolean): uPlot.Range.MinMax {
	if (low === null || high === null) return log ? [1, 10] : [0, 1];
	if (log) return uPlot.rangeLog(low, high, 10, false);
	return uPlot.rangeNum(low, high, intervals ? 0.3 : 0.1, true);
}

function place(x: number | undefined, axis: string): string {
	return x === undefined ? '–' : axis === 'time' ? duration(x) : axis === 'steps' ? short(x) + ' steps' : 'iteration ' + Math.round(x);
}

/** increments are the distances between ticks: whole iterations and steps, and times that clocks have. */
const increments = {
	count: Array.from({ length: 12 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat(),
	time: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400].concat([2, 5, 10, 20, 50, 100].map((n) => n * 86400)),
};

const titles: Record<string, string> = { iterations: 'iteration', steps: 'environment steps', time: 'time of training' };

function options(
	props: { lines: Line[]; axis: string; height: number; log?: boolean; sync?: string; zoom?: (from: number, to: number) => void },
	element: HTMLElement,
	moved: (u: uPlot) => void,
): uPlot.Options {
	const css = getComputedStyle(element);
	const color = (name: string) => css.getPropertyValue(name).trim();
	const axes = { stroke: color('--muted'), grid: { stroke: color('--line'), width: 1 }, ticks: { stroke: color('--line'), width: 1 }, font: '11px system-ui, sans-serif' };
	const series: uPlot.Series[] = [{}];
	const bands: uPlot.Band[] = [];
	const opacity = Math.round(255 * Math.min(0.17, 0.5 / props.lines.length)).toString(16).padStart(2, '0'); // of all of them one sees through
	props.lines.forEach((line, i) => {
		const { color: name, dash } = style(i);
		const stroke = color(name);
		series.push({ label: line.name, stroke, width: 2, dash, points: { show: (u) => u.data[0].length < 40, size: 5 }, spanGaps: true });
		for (let edge = 0; edge < 2; edge++) series.push({ stroke: 'transparent', width: 0, points: { show: false }, spanGaps: true, auto: false });
		if (line.low) bands.push({ series: [3 * i + 3, 3 * i + 2], fill: stroke + opacity });
	});
	return {
		width: Math.max(120, element.clientWidth),
		height: props.height,
		series,
		bands,
		legend: { show: false },
		padding: [8, 12, 0, 0],
		scales: { x: { time: false }, y: { distr: props.log ? 3 : 1, range: (_, low, high) => range(low, high, props.log, bands.length > 0) } },
		axes: [
			{
				...axes,
				size: 28,
				incrs: props.axis === 'time' ? increments.time : increments.count,
				values: (_, ticks) => ticks.map((v) => (props.axis === 'time' ? duration(v) : short(v))),
				space: props.axis === 'time' ? 90 : 60,
				...(props.height > 200 && { label: titles[props.axis], labelSize: 18, labelGap: 0, labelFont: axes.font }),
			},
			{ ...axes, size: 60, values: (_, ticks) => ticks.map((v) => (v === null ? '' : short(v))) },
		],
		cursor: {
			drag: { x: true, y: false, setScale: !props.zoom },
			sync: props.sync ? { key: props.sync } : undefined,
			points: { size: 7 },
		},
		hooks: {
			setCursor: [moved],
			draw: [(u) => void (element.dataset.points = String(u.data[0].length))], // for tests
			setSelect: [
				(u) => {
					if (!props.zoom || u.select.width < 4) return;
					const [from, to] = [0, u.select.width].map((more) => +u.posToVal(u.select.left + more, 'x').toPrecision(5)); // short in an address
					props.zoom(from, to);
					u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
				},
			],
			ready: [(u) => props.zoom && u.over.addEventListener('dblclick', () => props.zoom!(NaN, NaN))],
		},
	};
}
