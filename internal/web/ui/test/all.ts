// The front end's own tests, run in the browser by package browsertest, which reads failures.

import { labels } from '../curves';
import { style } from '../chart';
import { ago, bytes, duration, end, exact, number, short } from '../format';
import { decode, type Scene } from '../play/link';
import { address, changed, parse } from '../route';
import { smooth } from '../smooth';

const failures: string[] = [];
let checks = 0;

function equal(what: string, got: unknown, want: unknown) {
	checks++;
	if (JSON.stringify(got) !== JSON.stringify(want)) failures.push(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

// A frame of two bodies, an actuator and a contact, as learner/play writes it.
const frame = new DataView(new ArrayBuffer(28 + 4 + 28 + 24));
frame.setUint32(0, 7, true);
frame.setUint32(4, 3, true);
frame.setFloat64(8, 12.25, true);
[[16, -0.5], [20, 1.5], [28, 0.25]].forEach(([at, value]) => frame.setFloat32(at, value, true));
frame.setUint16(24, 2, true);
frame.setUint16(26, 1, true);
for (let i = 0; i < 13; i++) frame.setFloat32(32 + 4 * i, i, true);
const { actions, bodies, contacts, ...rest } = decode(frame.buffer, { actuators: [{}], bodies: ['world', 'body'] } as Scene);
equal('a frame', [rest, [...actions], [...bodies], [...contacts]], [
	{ steps: 7, episode: 3, sum: 12.25, reward: -0.5, time: 1.5, end: 2 }, [0.25], [0, 1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12],
]);

equal('numbers', [null, undefined, NaN, 0, 1234567.8, 123.456, 1.23456, 0.0123456, 1.5e-7, -2.5e12].map(number), ['–', '–', '–', '0', '1,234,568', '123.5', '1.23', '0.0123', '1.50e-7', '-2.50e12']);
equal('short numbers', [null, 999, 16000, 1.5e6, 1e-5].map(short), ['–', '999', '16K', '1.5M', '1.0e-5']);
equal('durations', [null, 0, 59, 61, 3600, 3661, 90000].map(duration), ['–', '0 s', '59 s', '1 min 1 s', '1 h', '1 h 1 min', '1 d 1 h']);
equal('ends of names', ['a/b/c-s1', 'mc gamma=0.9', 'a/b c (5 runs)', 'mc', ''].map((name) => name.slice(end(name))), ['c-s1', 'gamma=0.9', 'c (5 runs)', 'mc', '']);
equal('sizes', [0, 999, 270152, 5e6].map(bytes), ['0 B', '999 B', '270.2 kB', '5.0 MB']);
const time = new Date('2026-11-22T17:00:00Z');
equal('a time ago', [ago(time, time.getTime() + 1000), ago(time, time.getTime() + 3 * 3600e3)], ['now', '3 h ago']);
equal('an exact time has a zone', /^2026-11-2\d \d\d:\d\d:\d\d [+-]\d{4} \(.+\)$/.test(exact(time)), true);

for (const name of ['a/b c/d=1', 'x?y#z', 'ü/100%', '']) {
	const params = new URLSearchParams({ q: 'task=Hopper-v5 hidden="[64, 64]"', g: 'a&b' });
	const there = parse(address('run/' + name, params));
	equal(`the address of ${name}`, [there.path, there.params.toString()], ['run/' + name, params.toString()]);
}
equal('no address of ours', parse('#/%E0%A4%A').path, '');
equal('changed parameters', changed(new URLSearchParams('a=1&b=2'), { a: undefined, b: 3, c: '' }).toString(), 'b=3');

equal('no smoothing', smooth([1, null, 3], 0), [1, null, 3]);
equal('a constant stays', smooth([2, 2, null, 2], 0.9).map((v) => v && Math.round(1e9 * v) / 1e9), [2, 2, null, 2]);
equal('smoothing', smooth([0, 1], 0.5), [0, 0.5 / 0.75]);

equal('labels', labels(['task=Hopper-v5 estimator=mc gamma=0.9', 'task=Hopper-v5 estimator=uapg gamma=0.9']), ['mc', 'uapg']);
equal('labels with blanks', labels(['hidden="[64, 64]" name=a', 'hidden=[32] name=a']), ['hidden="[64, 64]"', 'hidden=[32]']);
equal('the label of all runs', labels(['']), ['all runs']);
equal('curves are told apart', new Set(Array.from({ length: 12 }, (_, i) => JSON.stringify(style(i)))).size, 12);

Object.assign(globalThis, { failures, checks });
