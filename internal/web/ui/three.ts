// What is used of three.js: a file of its own in dist, whose name changes with three.js alone.

export {
	AmbientLight, BoxGeometry, BufferGeometry, CapsuleGeometry, Color, CylinderGeometry, DirectionalLight, Float32BufferAttribute, Fog, Group,
	InstancedMesh, Matrix4, Mesh, MeshBasicMaterial, MeshPhongMaterial, PCFShadowMap, PerspectiveCamera, Plane, PlaneGeometry, Quaternion,
	Raycaster, RepeatWrapping, SRGBColorSpace, Scene, SphereGeometry, Texture, Vector2, Vector3, WebGLRenderer,
} from 'three';
export { OrbitControls } from 'three/addons/controls/OrbitControls.js';
