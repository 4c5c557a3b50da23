package offlinetest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	gpu       = "nvidia.com/gpu"
	driverDir = "/usr/local/nvidia/lib64" // where NVIDIA's images look for the driver
)

// AddGPU gives the node one nvidia.com/gpu, as NVIDIA's device plugin does: a pod that asks for it gets the driver's
// libraries mounted, which are those in a directory. The function that is returned takes it away again.
func (c *Cluster) AddGPU(libraries string) (remove func(), err error) {
	mounted, err := filepath.Glob(filepath.Join(libraries, "*.so.*"))
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	if len(mounted) == 0 {
		return nil, fmt.Errorf("offline: no libraries of a driver in %q", libraries)
	}
	sockets := filepath.Join(kubeletHome, "device-plugins")
	listener, err := net.Listen("unix", filepath.Join(sockets, "gpu.sock"))
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, &plugin{libraries: mounted})
	go func() { _ = server.Serve(listener) }() // until it is stopped; what fails before, the kubelet notices
	kubelet, err := grpc.NewClient("unix:"+filepath.Join(sockets, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		defer kubelet.Close()
		_, err = api.NewRegistrationClient(kubelet).Register(context.Background(), &api.RegisterRequest{
			Version: api.Version, Endpoint: "gpu.sock", ResourceName: gpu,
		})
	}
	if err != nil {
		server.Stop()
		return nil, fmt.Errorf("offline: the kubelet takes no device plugin: %w", err)
	}
	return server.Stop, nil
}

// plugin is a device plugin with one device, which is always well.
type plugin struct {
	api.UnimplementedDevicePluginServer
	libraries []string
}

func (*plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (*plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(&api.ListAndWatchResponse{
		Devices: []*api.Device{{ID: "0", Health: api.Healthy}}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for range request.ContainerRequests {
		given := &api.ContainerAllocateResponse{}
		for _, library := range p.libraries {
			given.Mounts = append(given.Mounts, &api.Mount{
				HostPath: library, ContainerPath: filepath.Join(driverDir, filepath.Base(library)), ReadOnly: true,
			})
		}
		response.ContainerResponses = append(response.ContainerResponses, given)
	}
	return response, nil
}
