// The files that start a plan under a cluster's scheduler: a batch script of Slurm, manifests of
// Kubernetes, and a TrainJob of Kubeflow Trainer. Each has one component for the nodes of a device
// type.
#pragma once

#include "ir/Program.h"

#include <string>

namespace heterplan {

/// launch.sbatch: a heterogeneous job of Slurm with one component for each kind of node. Nodes are
/// of one kind if they have the same numbers of ranks on the same device types.
std::string emitSlurmScript(const Program &program);

/// launch.k8s.yaml: a headless Service, and an Indexed Job for each device type. A pod is a node of
/// the plan.
std::string emitKubernetesManifest(const Program &program);

/// launch.trainjob.yaml: a TrainingRuntime with a replicated job for each device type, and the
/// TrainJob that runs it (Kubeflow Trainer v2).
std::string emitTrainJob(const Program &program);

} // namespace heterplan
