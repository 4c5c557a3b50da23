// What the server tells a viewer, and is told: see package play (learner/play).

export interface Geom {
	name: string;
	type: 'plane' | 'sphere' | 'capsule' | 'ellipsoid' | 'cylinder' | 'box' | 'mesh';
	body: number;
	size: [number, number, number];
	position: [number, number, number];
	quaternion: [number, number, number, number]; // w first, as everywhere in MuJoCo
	color: [number, number, number, number];
	mesh: number;
	texture: number;
	repeat: [number, number];
	uniform: boolean;
	specular: number;
	shininess: number;
	reflectance: number;
	emission: number;
}

export interface Scene {
	timestep: number;
	mass: number;
	center: [number, number, number];
	extent: number;
	bodies: string[];
	geoms: Geom[];
	meshes: { vertices: number[]; faces: number[] }[];
	textures: { png: string }[];
	lights: { directional: boolean; direction: [number, number, number]; diffuse: [number, number, number] }[];
	cameras: { name: string; body: number; offset: [number, number, number]; fieldOfView: number }[];
	actuators: { name: string; low: number; high: number }[];
}

export interface SceneMessage {
	type: 'scene';
	task: string;
	scene: Scene;
	stepSeconds: number;
	timeLimit: number;
}

export interface PolicyMessage {
	type: 'policy';
	checkpoint: string;
	iteration?: number;
	checkpoints?: string[];
}

export type Message = SceneMessage | PolicyMessage | { type: 'note' | 'error'; text: string };

export const terminated = 1;

export interface Frame {
	steps: number;
	episode: number;
	sum: number; // of the rewards: the return so far
	reward: number;
	time: number; // in s of the simulation
	end: number; // 0: the episode goes on
	actions: Float32Array;
	bodies: Float32Array; // position and quaternion of each body but the world
	contacts: Float32Array; // position and force of each contact
}

/** decode reads a frame of a scene. */
export function decode(data: ArrayBuffer, scene: Scene): Frame {
	const header = new DataView(data);
	let at = 28;
	const floats = (n: number) => {
		const part = new Float32Array(data, at, n);
		at += 4 * n;
		return part;
	};
	const contacts = header.getUint16(26, true);
	return {
		steps: header.getUint32(0, true),
		episode: header.getUint32(4, true),
		sum: header.getFloat64(8, true),
		reward: header.getFloat32(16, true),
		time: header.getFloat32(20, true),
		end: header.getUint16(24, true),
		actions: floats(scene.actuators.length),
		bodies: floats(7 * (scene.bodies.length - 1)),
		contacts: floats(6 * contacts),
	};
}

export type Command =
	| { do: 'pause' | 'play' | 'step' }
	| { do: 'speed'; speed: number }
	| { do: 'reset'; seed: number; episode: number }
	| { do: 'action'; action: 'mean' | 'sampled' }
	| { do: 'checkpoint'; checkpoint: string }
	| { do: 'push'; body: number; point: number[]; force: number[] }
	| { do: 'contacts'; on: boolean };

export interface Listener {
	/** opened returns the query to begin with, and the commands that follow. */
	begin(): { query: Record<string, string>; commands: Command[] };
	message(m: Message): void;
	frame(f: Frame): void;
	/** lost is called when the connection is, with the time in s until it is tried again. */
	lost(again: number): void;
}

/** Link is a connection that is made again when it is lost, until it is closed or the server gives a final answer. */
export class Link {
	private socket?: WebSocket;
	private timer = 0;
	private wait = 0.5;

	constructor(private readonly listener: Listener) {
		this.open();
	}

	private open() {
		const { query, commands } = this.listener.begin();
		const url = new URL('live/?' + new URLSearchParams(query), location.href.replace(/[?#].*/, ''));
		url.protocol = url.protocol.replace('http', 'ws');
		const socket = new WebSocket(url);
		this.socket = socket;
		socket.binaryType = 'arraybuffer';
		let scene: Scene | undefined;
		socket.onopen = () => {
			for (const c of commands) this.send(c);
		};
		socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
			if (typeof event.data !== 'string') {
				if (scene) this.listener.frame(decode(event.data, scene));
				return;
			}
			this.wait = 0.5;
			const m = JSON.parse(event.data) as Message;
			if (m.type === 'scene') scene = m.scene;
			if (m.type === 'error') this.close();
			this.listener.message(m);
		};
		socket.onclose = () => {
			this.listener.lost(this.wait);
			this.timer = window.setTimeout(() => this.open(), 1000 * this.wait);
			this.wait = Math.min(2 * this.wait, 8);
		};
	}

	send(c: Command) {
		if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(c));
	}

	close() {
		clearTimeout(this.timer);
		if (this.socket) this.socket.onclose = this.socket.onmessage = this.socket.onopen = null;
		this.socket?.close();
	}
}
