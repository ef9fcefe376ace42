"""Sources that can be packed: folders of images, archives, volumes, MNIST and CIFAR."""
