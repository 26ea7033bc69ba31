#include "ir/Certificate.h"
#include "support/Diagnostic.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
Certificate sample() {
  return {"model", "cluster", {"a", "b"}, {{2, 0, 0.5, {0, 1.25}, 0, 3}, {4, 1, 0, {2, 0}, 7, 0}}};
}

TEST(Certificate, IsReadAsItWasWritten) {
  EXPECT_EQ(llvm::cantFail(parseCertificate(toJson(sample()), "c.json")), sample());
}

TEST(Certificate, FilesWithTooManyIntervalsAreRefused) {
  Certificate certificate = sample();
  certificate.intervals.resize(mostCertifiedIntervals);
  EXPECT_TRUE(bool(parseCertificate(toJson(certificate), "c.json")));
  certificate.intervals.emplace_back();
  llvm::Expected<Certificate> read = parseCertificate(toJson(certificate), "c.json");
  ASSERT_FALSE(bool(read));
  EXPECT_NE(toText(read.takeError()).find("there are 12001 intervals; at most 12000 are accepted"),
            std::string::npos);
}
} // namespace
