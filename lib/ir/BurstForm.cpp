#include "ir/BurstForm.h"

#include "ir/FormParts.h"

#include "heterplan.pb.h"

namespace heterplan {

namespace {
void writeBackground(const BackgroundJob &job, v1::BackgroundJob &form) {
  form.set_model(job.model);
  form.set_model_fingerprint(job.modelFingerprint);
  form.set_batch(double(job.batch.value()));
  form.set_max_slowdown(job.maxSlowdown);
  form.set_memory_bytes(job.memory.value());
  form.set_iteration_seconds(job.iteration.value());
  form.set_overrun_seconds(job.overrun.value());
  form.set_predicted_slowdown(job.predictedSlowdown);
  form.set_samples_per_second(job.rate.value());
  form.set_cluster_throughput(job.clusterThroughput.value());
  for (const BackgroundCopy &copy : job.copies) {
    v1::BackgroundCopy &copyForm = *form.add_copies();
    writeDevice(copy.device, *copyForm.mutable_device());
    copyForm.set_samples_per_second(copy.rate.value());
  }
}

BackgroundJob readBackground(const v1::BackgroundJob &form) {
  BackgroundJob job;
  job.model = form.model();
  job.modelFingerprint = form.model_fingerprint();
  job.batch = Samples(int64_t(form.batch()));
  job.maxSlowdown = form.max_slowdown();
  job.memory = Bytes(form.memory_bytes());
  job.iteration = Seconds(form.iteration_seconds());
  job.overrun = Seconds(form.overrun_seconds());
  job.predictedSlowdown = form.predicted_slowdown();
  job.rate = SamplesPerSecond(form.samples_per_second());
  job.clusterThroughput = SamplesPerSecond(form.cluster_throughput());
  for (const v1::BackgroundCopy &copy : form.copies())
    job.copies.push_back({readDevice(copy.device()), SamplesPerSecond(copy.samples_per_second())});
  return job;
}
} // namespace

void writeBurst(const Plan &plan, v1::Plan &form) {
  for (const Stage &stage : plan.stages)
    for (const StageInput &input : stage.inputs) {
      v1::StageInput &inputForm = *form.mutable_stages(stage.id)->add_inputs();
      inputForm.set_stage(input.stage);
      inputForm.set_receive_seconds(input.receive.value());
      inputForm.set_receive_gradient_seconds(input.receiveGradient.value());
    }
  form.set_device_seconds(plan.deviceTime.value());
  for (const IdleGap &gap : plan.idle) {
    v1::IdleGap &gapForm = *form.add_idle();
    writeDevice(gap.device, *gapForm.mutable_device());
    gapForm.set_start(gap.start.value());
    gapForm.set_seconds(gap.duration.value());
    gapForm.set_free_memory_bytes(gap.freeMemory.value());
  }
  if (plan.background)
    writeBackground(*plan.background, *form.mutable_background());
  for (const Alternative &alternative : plan.alternatives) {
    v1::Alternative &alternativeForm = *form.add_alternatives();
    alternativeForm.set_name(alternative.name);
    alternativeForm.set_found(alternative.found);
    alternativeForm.set_objective_value(alternative.objectiveValue);
    alternativeForm.set_lower_bound(alternative.lowerBound);
    alternativeForm.set_proven(alternative.proven);
  }
}

void readBurst(const v1::Plan &form, Plan &plan) {
  for (size_t i = 0; i < plan.stages.size(); ++i)
    for (const v1::StageInput &input : form.stages(int(i)).inputs())
      plan.stages[i].inputs.push_back({input.stage(), Seconds(input.receive_seconds()),
                                       Seconds(input.receive_gradient_seconds())});
  plan.deviceTime = Seconds(form.device_seconds());
  for (const v1::IdleGap &gap : form.idle())
    plan.idle.push_back({readDevice(gap.device()), Seconds(gap.start()), Seconds(gap.seconds()),
                         Bytes(gap.free_memory_bytes())});
  if (form.has_background())
    plan.background = readBackground(form.background());
  for (const v1::Alternative &alternative : form.alternatives())
    plan.alternatives.push_back({alternative.name(), alternative.found(),
                                 alternative.objective_value(), alternative.lower_bound(),
                                 alternative.proven()});
}

} // namespace heterplan
