// Light or dark, as the system has it or the user.

import { useEffect, useState } from 'preact/hooks';

const themes = ['system', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];

const system = matchMedia('(prefers-color-scheme: dark)');
const changed = 'theme'; // event of the window

const chosen = (): Theme => themes.find((t) => t === localStorage.getItem('theme')) ?? 'system';
document.documentElement.dataset.theme = chosen();
system.addEventListener('change', () => dispatchEvent(new Event(changed)));

/** useTheme returns the theme that is chosen and whether it is dark, and renders anew when either changes. */
export function useTheme(): { theme: Theme; dark: boolean } {
	const now = () => ({ theme: chosen(), dark: chosen() === 'system' ? system.matches : chosen() === 'dark' });
	const [theme, setTheme] = useState(now);
	useEffect(() => {
		const again = () => setTheme(now());
		addEventListener(changed, again);
		return () => removeEventListener(changed, again);
	}, []);
	return theme;
}

/** nextTheme chooses the next of the three. */
export function nextTheme() {
	localStorage.setItem('theme', themes[(themes.indexOf(chosen()) + 1) % themes.length]);
	document.documentElement.dataset.theme = chosen();
	dispatchEvent(new Event(changed));
}
