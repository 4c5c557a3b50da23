// The strips under a view: the rewards and actions of the last steps.

import type { Frame, SceneMessage } from './link';

const columns = 240; // steps shown
const rewardHeight = 58; // pixels, with the line of text above it
const textHeight = 15;

/** Strips draws into a canvas. */
export class Strips {
	private rewards: number[] = [];
	private actions: Float32Array[] = [];
	private requested = false;

	constructor(
		private readonly canvas: HTMLCanvasElement,
		private readonly about: SceneMessage,
	) {
		canvas.style.height = rewardHeight + this.row() * about.scene.actuators.length + 'px';
	}

	private row() {
		return Math.max(4, Math.min(10, 60 / this.about.scene.actuators.length));
	}

	add(f: Frame) {
		if (f.steps === 0) {
			this.rewards = [];
			this.actions = [];
			this.draw();
			return;
		}
		this.rewards.push(f.reward);
		this.actions.push(f.actions);
		if (this.rewards.length > columns) {
			this.rewards.shift();
			this.actions.shift();
		}
		if (this.requested) return;
		this.requested = true;
		requestAnimationFrame(() => this.draw());
	}

	draw() {
		this.requested = false;
		const { clientWidth: width, clientHeight: height } = this.canvas;
		if (!width || !height) return;
		const scale = Math.min(devicePixelRatio, 2);
		if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
			this.canvas.width = Math.round(width * scale);
			this.canvas.height = Math.round(height * scale);
		}
		const pen = this.canvas.getContext('2d')!;
		pen.setTransform(scale, 0, 0, scale, 0, 0);
		pen.clearRect(0, 0, width, height);
		const ink = getComputedStyle(this.canvas).color;
		this.reward(pen, ink, width);
		this.action(pen, width);
	}

	private reward(pen: CanvasRenderingContext2D, ink: string, width: number) {
		const high = Math.max(0, ...this.rewards);
		const low = Math.min(0, ...this.rewards);
		const y = (reward: number) => textHeight + 3 + ((rewardHeight - textHeight - 8) * (high - reward)) / (high - low || 1);
		pen.strokeStyle = ink;
		pen.globalAlpha = 0.3;
		pen.beginPath();
		pen.moveTo(0, y(0));
		pen.lineTo(width, y(0));
		pen.stroke();
		pen.globalAlpha = 1;
		pen.strokeStyle = '#0072b2';
		pen.lineWidth = 1.5;
		pen.beginPath();
		this.rewards.forEach((reward, i) => pen.lineTo((width * (i + 1)) / columns, y(reward)));
		pen.stroke();
		pen.lineWidth = 1;
		pen.fillStyle = ink;
		pen.font = '11px system-ui, sans-serif';
		pen.globalAlpha = 0.7;
		pen.fillText(`reward of each step, from ${low.toPrecision(2)} to ${high.toPrecision(2)}`, 0, 11);
		pen.globalAlpha = 1;
	}

	/** action draws a row an actuator: blue for its lowest control, orange for its highest. */
	private action(pen: CanvasRenderingContext2D, width: number) {
		const row = this.row();
		const step = width / columns;
		this.about.scene.actuators.forEach(({ low, high }, a) => {
			this.actions.forEach((action, i) => {
				const share = (2 * (action[a] - low)) / (high - low || 1) - 1;
				pen.fillStyle = share < 0 ? '#0072b2' : '#e69f00';
				pen.globalAlpha = Math.abs(share);
				pen.fillRect(i * step, rewardHeight + a * row, step + 0.5, row - 1);
			});
		});
		pen.globalAlpha = 1;
	}

	/** describe names the actuator at a height in the canvas. */
	describe(y: number): string {
		const i = Math.floor((y - rewardHeight) / this.row());
		const actuator = this.about.scene.actuators[i];
		if (!actuator) return 'reward of each step';
		const now = this.actions.at(-1)?.[i];
		return `${actuator.name || 'actuator ' + (i + 1)}: ${now === undefined ? '' : now.toFixed(2) + ', '}from ${actuator.low} to ${actuator.high}`;
	}
}
