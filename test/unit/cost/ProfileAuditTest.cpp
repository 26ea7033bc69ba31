#include "cost/ProfileAudit.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {
const Surroundings here{"2026-03-01T10:00:00Z",
                        "a processor",
                        "Linux 6",
                        "2000 MHz",
                        {"native, oneDNN 2", "torch 2.13.0"}};

Profile measuredHere() {
  Profile profile;
  profile.date = "2026-02-27T23:00:00Z";
  profile.device = here.device;
  profile.driver = here.driver;
  profile.clocks = "2100 MHz, governor performance";
  profile.engine = "torch 2.13.0, update by sgd";
  for (int64_t batch : {1, 2, 4}) {
    ProfileEntry entry;
    entry.signature = "s";
    entry.deviceType = "core";
    entry.batch = Samples(batch);
    entry.forward = entry.backward = Seconds(double(batch));
    entry.spread = 0.01 * double(batch);
    profile.entries.push_back(entry);
  }
  return profile;
}

ProfileAudit audited(const Profile &profile) { return auditProfiles({{"p", profile}}, here); }

std::vector<std::string> failures(const Profile &profile) {
  return audited(profile).failures(std::nullopt);
}

TEST(ProfileAudit, CountsDays) {
  EXPECT_EQ(daysBetween("2026-02-27T23:00:00Z", "2026-03-01T00:00:00Z"), 2);
  EXPECT_EQ(daysBetween("2024-02-28", "2024-03-01"), 2); // a leap year
  EXPECT_EQ(daysBetween("2026-03-01", "2026-02-27"), -2);
  EXPECT_EQ(daysBetween("2026-02-30", "2026-03-01"), std::nullopt);
  EXPECT_EQ(daysBetween("last week", "2026-03-01"), std::nullopt);
}

TEST(ProfileAudit, AFreshQuietProfilePasses) {
  ProfileAudit audit = audited(measuredHere());
  EXPECT_TRUE(audit.failures(2).empty());
  ASSERT_EQ(audit.files.size(), 1u);
  const FileAudit &file = audit.files[0];
  EXPECT_TRUE(file.sameDevice);
  EXPECT_TRUE(file.stale.empty());
  EXPECT_TRUE(file.notes.empty());
  EXPECT_EQ(file.ageDays, 2);
  EXPECT_EQ(file.layers, 1u);
  EXPECT_EQ(file.smallestBatch, Samples(1));
  EXPECT_EQ(file.largestBatch, Samples(4));
  EXPECT_DOUBLE_EQ(file.medianSpread, 0.02);
  ASSERT_EQ(file.noisiest.size(), 3u);
  EXPECT_EQ(file.noisiest[0].batch, Samples(4));
}

TEST(ProfileAudit, OtherSoftwareOnThisDeviceIsStale) {
  Profile profile = measuredHere();
  profile.engine = "torch 2.11.0, update by sgd";
  profile.driver = "Linux 5";
  EXPECT_EQ(audited(profile).files[0].stale,
            (std::vector<std::string>{"driver: 'Linux 5' there, 'Linux 6' here",
                                      "engine: 'torch 2.11.0' there, 'torch 2.13.0' here"}));
  EXPECT_EQ(failures(profile).size(), 1u);
  profile.device = "another processor";
  EXPECT_TRUE(failures(profile).empty());
}

TEST(ProfileAudit, AnotherOptimizerIsTheSameSoftware) {
  Profile profile = measuredHere();
  profile.engine = "native, oneDNN 2, update by adam";
  EXPECT_TRUE(failures(profile).empty());
  profile.engine = "native, oneDNN 1, update by adam";
  EXPECT_EQ(failures(profile).size(), 1u);
}

TEST(ProfileAudit, WhatCannotBeComparedAndClocksAreNoted) {
  Profile profile = measuredHere();
  profile.engine = "abacus 3";
  profile.clocks = "3000 MHz";
  FileAudit file = audited(profile).files[0];
  EXPECT_TRUE(file.stale.empty());
  EXPECT_EQ(file.notes, (std::vector<std::string>{"engine 'abacus 3' is not here: not compared",
                                                  "clocks: '3000 MHz' there, '2000 MHz' here"}));
}

TEST(ProfileAudit, ManyLargeSpreadsFail) {
  Profile profile = measuredHere();
  profile.entries[0].spread = 0.11;
  EXPECT_EQ(failures(profile), std::vector<std::string>{"p: 1 of 3 spreads are above 10%"});
  for (ProfileEntry &entry : profile.entries)
    entry.spread = 0; // not stated
  EXPECT_TRUE(failures(profile).empty());
  EXPECT_EQ(audited(profile).files[0].stated, 0u);
}

TEST(ProfileAudit, AgeFailsOnlyWhenAsked) {
  Profile profile = measuredHere();
  EXPECT_EQ(audited(profile).failures(1), std::vector<std::string>{"p: older than 1 day"});
  profile.date = "";
  EXPECT_TRUE(failures(profile).empty());
  EXPECT_EQ(audited(profile).failures(9),
            std::vector<std::string>{"p: no date, so perhaps older than 9 days"});
}

TEST(ProfileAudit, ConflictsBetweenFilesAndOutliersFail) {
  Profile other = measuredHere();
  other.entries[1].forward = Seconds(50);
  ProfileAudit audit = auditProfiles({{"p", measuredHere()}, {"q", other}}, here);
  ASSERT_EQ(audit.conflicts.size(), 1u);
  EXPECT_EQ(audit.conflicts[0].place, (EntryPlace{0, 1}));
  ASSERT_EQ(audit.outliers.size(), 1u);
  EXPECT_EQ(audit.outliers[0].place, (EntryPlace{1, 1}));
  EXPECT_EQ(audit.failures(std::nullopt), (std::vector<std::string>{"1 conflict", "1 outlier"}));
}
} // namespace
