package offlinetest

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// makeVolumes makes a default StorageClass and the volumes in it: directories of this machine, which hold on to what is
// in them when nobody claims them any more.
func (c *Cluster) makeVolumes(ctx context.Context) error {
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local",
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &waits,
	}
	if _, err := c.Client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	for i := range c.options.Volumes {
		name := fmt.Sprint("volume-", i)
		if err := os.Mkdir(c.path(name), 0o755); err != nil {
			return fmt.Errorf("offline: %w", err)
		}
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: class.Name, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")},
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					Local: &corev1.LocalVolumeSource{Path: c.path(name)}},
				NodeAffinity: &corev1.VolumeNodeAffinity{
					Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchExpressions: []corev1.NodeSelectorRequirement{{
							// any: a test may add nodes on which nothing runs
							Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpExists,
						}},
					}}}},
			},
		}
		if _, err := c.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("offline: %w", err)
		}
	}
	return nil
}
