#include "ir/Certificate.h"
#include "ir/FileForms.h"
#include "ir/JsonForm.h"

#include "heterplan.pb.h"

#include "support/Diagnostic.h"
#include "support/Files.h"

using namespace llvm;

namespace heterplan {

std::string toJson(const Certificate &certificate) {
  v1::Certificate form;
  form.set_schema_version(schemaVersion);
  form.set_model_fingerprint(certificate.modelFingerprint);
  form.set_cluster_fingerprint(certificate.clusterFingerprint);
  for (const std::string &type : certificate.deviceTypes)
    form.add_device_types(type);
  for (const CertifiedInterval &each : certificate.intervals) {
    v1::CertifiedInterval &interval = *form.add_intervals();
    interval.set_micro_batches(each.microBatches);
    interval.set_iteration_above(each.iterationAbove);
    interval.set_slowest_above(each.slowestAbove);
    for (double multiplier : each.devices)
      interval.add_devices(multiplier);
    interval.set_budget(each.budget);
    interval.set_seconds(each.seconds);
  }
  return printMessage(form, Defaults::LeftOut);
}

Expected<Certificate> parseCertificate(StringRef text, StringRef path) {
  JsonSource source{text, path};
  v1::Certificate form;
  if (Error error = parseMessage(source, form, "schemaVersion", /*versionOptional=*/false))
    return error;
  if (size_t(form.intervals_size()) > mostCertifiedIntervals)
    return Diagnostic(Diag::OutOfRange, source.at("intervals"))
           << "there are " << form.intervals_size() << " intervals; at most "
           << mostCertifiedIntervals << " are accepted";
  Certificate certificate{form.model_fingerprint(),
                          form.cluster_fingerprint(),
                          {form.device_types().begin(), form.device_types().end()},
                          {}};
  for (const v1::CertifiedInterval &each : form.intervals())
    certificate.intervals.push_back({int(each.micro_batches()),
                                     each.iteration_above(),
                                     each.slowest_above(),
                                     {each.devices().begin(), each.devices().end()},
                                     each.budget(),
                                     each.seconds()});
  return certificate;
}

Expected<Certificate> readCertificate(StringRef path) {
  auto text = readFile(path, largestJson);
  return text ? parseCertificate(*text, path) : text.takeError();
}

} // namespace heterplan
