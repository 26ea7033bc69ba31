#include "Fixture.h"

#include "search/jobs/read/Traces.h"

#include "gtest/gtest.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {
constexpr const char *speeds =
    R"json({"gpu": {"('A3C', 1)": {"null": 4.0, "('B', 1)": [1, 2]},
                    "('R (batch size 16)', 2)": {"null": 5.0}}})json";

struct Trace {
  llvm::Expected<jobs::Workload> read(const char *form, llvm::StringRef text,
                                      const std::string &matrix = "") {
    jobs::TraceOptions own = options;
    if (llvm::StringRef(form) != "gavel") {
      own.throughputs = matrix;
      own.throughputsPath = "speeds";
    }
    return jobs::parseTrace(form, text, "jobs.trace", machines, own);
  }
  std::string errorOf(const char *form, llvm::StringRef text, const std::string &matrix = "") {
    auto workload = read(form, text, matrix);
    return workload ? "" : toText(workload.takeError());
  }

  Cluster cluster = twoGpuNodes();
  jobs::Machines machines{cluster};
  jobs::TraceOptions options{100, Seconds(60), 0, speeds, "speeds.json"};
};
} // namespace

TEST(JobsTraces, gavelTellsStepsAndScale) {
  Trace trace;
  jobs::Workload workload =
      llvm::cantFail(trace.read("gavel", "R (batch size 16)\trun\t-n\t1\t100\t130.5\t2\n"
                                         "A3C\trun\tdir\t-n\t0\t7\t0.0\t4\n"));
  ASSERT_EQ(workload.jobs.size(), 2u);
  EXPECT_EQ(workload.jobs[0].work(), 1600);
  EXPECT_EQ(workload.jobs[0].arrival, 2);
  EXPECT_EQ(workload.jobs[0].batch, 2);
  EXPECT_DOUBLE_EQ(workload.jobs[0].sampleTimes.at("gpu").value(), 2 / (5.0 * 16));
  // Known of one worker only; without a batch size a sample is a step.
  EXPECT_EQ(workload.jobs[1].work(), 7);
  EXPECT_DOUBLE_EQ(workload.jobs[1].sampleTimes.at("gpu").value(), 1 / 4.0);
}

TEST(JobsTraces, gavelOfTenColumnsTellsWeightsObjectivesAndGangs) {
  Trace trace;
  jobs::Workload workload = llvm::cantFail(
      trace.read("gavel", "R (batch size 16)\trun\tdir\t-n\t1\t1500\t2\t4\t1.5\t130\n"
                          "A3C\trun\tdir\t-n\t0\t7\t3\t1\t-1.000000\t0\n"));
  ASSERT_EQ(workload.jobs.size(), 2u);
  const jobs::Job &first = workload.jobs[0];
  EXPECT_EQ(first.work(), 1500 * 16);
  EXPECT_EQ(first.arrival, 2);
  EXPECT_EQ(first.batch, 2);
  EXPECT_EQ(first.minWorkers, 2);
  EXPECT_EQ(first.sameType, true);
  ASSERT_TRUE(first.deadline.has_value());
  EXPECT_EQ(first.deadline->slots, 8); // 1500 steps at 5 a second, 1.5 times, in minutes: 7.5
  EXPECT_FALSE(first.deadline->isHard);
  EXPECT_FALSE(workload.jobs[1].deadline.has_value());
  EXPECT_EQ(workload.jobs[1].batch, 3);
  EXPECT_NE(trace.errorOf("gavel", "A3C\trun\td\t-n\t0\t7\t1\t1\t0\n").find("has 9 tab-separated"),
            std::string::npos);
}

TEST(JobsTraces, gavelErrorsAreLocated) {
  Trace trace;
  EXPECT_EQ(trace.errorOf("gavel", "A3C\tx\n")
                .find("jobs.trace:1:1: error: [HP1216] the line has 2 tab-separated fields\nnote: "
                      "expected: tab-separated lines 'type, "),
            0u);
  EXPECT_EQ(trace.errorOf("gavel", "\nA3C\tr\t-n\t1\t9\t-3\t1\n")
                .find("jobs.trace:2:14: error: [HP1216] arrival is '-3'"),
            0u);
  trace.options.throughputs = "{}";
  EXPECT_EQ(
      trace.errorOf("gavel", "A3C\tr\t-n\t1\t9\t3\t1\n").find("speeds.json:1:1: error: [HP1004]"),
      0u);
}

TEST(JobsTraces, gavelReadsOddCells) {
  Trace trace;
  auto jobOf = [&](const std::string &weight, const std::string &objective) {
    return llvm::cantFail(trace.read("gavel", "\xEF\xBB\xBF A3C \tr\td\t-n\t0\t7\t1.0\t" + weight +
                                                  "\t" + objective + "\t 130 \r\n"))
        .jobs.front();
  };
  EXPECT_EQ(jobOf("1", "1.5").arrival, 2);
  EXPECT_TRUE(jobOf("1", "1.5").deadline.has_value());
  for (const char *none : {"-1.000000", "None", "nan", ""})
    EXPECT_FALSE(jobOf("1", none).deadline.has_value()) << none;
  EXPECT_DOUBLE_EQ(jobOf("3", "").utility.value, 3 * jobOf("1", "").utility.value);
  for (const char *line :
       {"A3C\tr\td\t-n\t0\t7\t1\t\t-1\t0\n", "A3C\tr\td\t-n\t0\t7\t1\t1\t-1\t\n"})
    EXPECT_NE(trace.errorOf("gavel", line).find("is ''; numbers"), std::string::npos) << line;
}

TEST(JobsTraces, gavelNamesTheJobTypesThatItKnows) {
  Trace trace;
  EXPECT_EQ(trace.errorOf("gavel", "A3B\tr\t-n\t1\t9\t3\t1\n"),
            "jobs.trace:1:1: error: [HP1216] there are no steps a second for 'A3B'; did you mean "
            "'A3C'?\nnote: expected: a job type of speeds.json: A3C, R (batch size 16)");
  EXPECT_EQ(trace.errorOf("gavel", "R (batch size 16)\tr\t-n\t1\t9\t3\t4\n"),
            "jobs.trace:1:1: error: [HP1216] no device type of the cluster '' has steps a second "
            "for 'R (batch size 16)' on 4 workers or on one\nnote: expected: one of the device "
            "types that speeds.json has for this job: gpu");
}

TEST(JobsTraces, aTraceWithoutJobsIsRefused) {
  Trace trace;
  for (const jobs::TraceForm &form : jobs::traceForms())
    for (const char *text : {"", " \n\n"})
      EXPECT_EQ(trace.errorOf(form.name, text), "jobs.trace:1:1: error: [HP1003] the file is empty")
          << form.name;
  EXPECT_EQ(trace.errorOf("alibaba", "job_name,task_name,inst_num,status,start_time,end_time,"
                                     "plan_cpu,plan_mem,plan_gpu,gpu_type\n"),
            "jobs.trace:1:1: error: [HP1004] the trace has no job that ran\nnote: jobs without a "
            "start or an end are left out");
  EXPECT_EQ(trace.errorOf("philly", "[]"),
            "jobs.trace:1:1: error: [HP1004] the trace has no job that ran\nnote: jobs without a "
            "start or an end are left out");
}

TEST(JobsTraces, alibabaTellsInstancesAndPlans) {
  Trace trace;
  jobs::Workload workload =
      llvm::cantFail(trace.read("alibaba", "j1,worker,2,Terminated,1000,1100,600,29.5,50,V100\n"
                                           "j1,worker,1,Terminated,1130,1190,100,1,,\n"
                                           "j2,ps,1,Running,1200,,100,1,,\n"));
  ASSERT_EQ(workload.jobs.size(), 2u); // one never ended
  EXPECT_EQ(workload.jobs[0].name, "j1/worker");
  EXPECT_EQ(workload.jobs[0].work(), 200);
  EXPECT_EQ(workload.jobs[0].worker, (jobs::Demand{6000, 29.5e9, 1}));
  EXPECT_EQ(workload.jobs[1].name, "j1/worker#1");
  EXPECT_EQ(workload.jobs[1].arrival, 2);
  EXPECT_NE(trace.errorOf("alibaba", "j,w,0,T,1,2,3,4,5\n").find("inst_num is '0'"),
            std::string::npos);
}

TEST(JobsTraces, namesOfTasksAreUnique) {
  Trace trace;
  std::string text;
  for (const char *task : {"w", "w", "w#1", "w", "w#2"})
    text += std::string("j,") + task + ",1,T,0,60,100,1,,\n";
  std::vector<std::string> names;
  for (const jobs::Job &job : llvm::cantFail(trace.read("alibaba", text)).jobs)
    names.push_back(job.name);
  EXPECT_EQ(names, (std::vector<std::string>{"j/w", "j/w#3", "j/w#1", "j/w#4", "j/w#2"}));
}

TEST(JobsTraces, alibabaReadsOddCells) {
  Trace trace;
  std::string header =
      "\xEF\xBB\xBFjob_name,task_name,inst_num,status,start_time,end_time,plan_cpu,"
      "plan_mem,plan_gpu\r\n";
  jobs::Workload workload = llvm::cantFail(trace.read(
      "alibaba", header + "\"a, \"\"b\"\"\",\"w\",\"2.0\",T,\"1000\",1100.5,600,NaN,None\r\n"
                          "c,w,1,Running,1200,NaN,100,1,\r\n"));
  ASSERT_EQ(workload.jobs.size(), 1u);
  EXPECT_EQ(workload.jobs[0].name, "a, \"b\"/w");
  EXPECT_EQ(workload.jobs[0].batch, 2);
  EXPECT_EQ(workload.jobs[0].work(), 201);
  EXPECT_EQ(workload.jobs[0].worker, (jobs::Demand{6000, 0, 0}));
  EXPECT_EQ(
      trace.errorOf("alibaba", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1\n")
          .find("jobs.trace:1:1: error: [HP1216] the header lacks creation_time,deletion_time "
                "of the pods of 2023\nnote: expected: "),
      0u);
}

TEST(JobsTraces, alibabaOf2023And2025HaveHeaders) {
  Trace trace;
  jobs::Workload pods = llvm::cantFail(trace.read(
      "alibaba", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
                 "deletion_time,scheduled_time\n"
                 "openb-pod-0,2000,1024,1,460,,LS,Running,100,400,100\n"
                 "openb-pod-1,2000,1024,0,0,,LS,Pending,160,,\n"));
  ASSERT_EQ(pods.jobs.size(), 1u);
  EXPECT_EQ(pods.jobs[0].name, "openb-pod-0");
  EXPECT_EQ(pods.jobs[0].work(), 300);
  EXPECT_EQ(pods.jobs[0].worker, (jobs::Demand{2000, 1024.0 * 1024 * 1024, 1}));
  jobs::Workload instances = llvm::cantFail(
      trace.read("alibaba", "instance_sn,role,cpu_request,gpu_request,memory_request,creation_time,"
                            "deletion_time\nsn-1,HN,4,2,8,0,60\n"));
  ASSERT_EQ(instances.jobs.size(), 1u);
  EXPECT_EQ(instances.jobs[0].worker, (jobs::Demand{4000, 8.0 * 1024 * 1024 * 1024, 2}));
  std::string unknown = trace.errorOf("alibaba", "a,b,A10,1,2,3,4,5,6\n");
  EXPECT_EQ(unknown.find("jobs.trace:1:5: error: [HP1216] inst_num is 'A10'"), 0u) << unknown;
  EXPECT_NE(unknown.find("expected: the task table of 2020 (job_name,task_name,inst_num"),
            std::string::npos)
      << unknown;
}

TEST(JobsTraces, alibabaOf2026TellsGpuModelsWorkersAndDurations) {
  Trace trace;
  std::string header = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,"
                       "submit_time,duration,job_type\n";
  std::string text = header + "239255,13,A10,20,1,1,0,600,HP\n437260,57,A100-SXM4-80GB,15,2,16,"
                              "120,300,Spot\n3,1,A10,8,1,1,5,,HP\n";
  jobs::Workload workload = llvm::cantFail(trace.read("alibaba", text));
  ASSERT_EQ(workload.jobs.size(), 2u); // one never ended
  EXPECT_EQ(workload.jobs[0].worker, (jobs::Demand{20000, 0, 1}));
  EXPECT_EQ(workload.jobs[0].priority, 1);
  EXPECT_EQ(workload.jobs[1].batch, 16);
  EXPECT_EQ(workload.jobs[1].work(), 4800);
  EXPECT_EQ(workload.jobs[1].arrival, 2);
  EXPECT_EQ(workload.jobs[1].priority, 0);
  EXPECT_TRUE(workload.jobs[1].sampleTimes.empty());
  std::string wrong = trace.errorOf("alibaba", header + "1,2,A10,20,one,1,0,600,HP\n");
  EXPECT_EQ(wrong.find("jobs.trace:2:12: error: [HP1216] gpu_request is 'one'"), 0u) << wrong;
  EXPECT_NE(wrong.find("the jobs of 2026 (job_name,gpu_model,"), std::string::npos) << wrong;
}

TEST(JobsTraces, aMatrixOfSpeedsGivesTimesByDeviceType) {
  Trace trace;
  std::string text = "job_name,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,"
                     "job_type\na,A10,1,1,1,0,600,HP\nb,H800,1,1,1,0,600,HP\nc,,1,0,1,0,600,HP\n";
  std::string type = trace.cluster.types.back().name;
  jobs::Workload workload = llvm::cantFail(
      trace.read("alibaba", text, "{A10: {" + type + ": 2, other: 9}, '*': {" + type + ": 0.5}}"));
  ASSERT_EQ(workload.jobs.size(), 3u);
  using Times = std::map<std::string, Seconds>;
  EXPECT_EQ(workload.jobs[0].sampleTimes, (Times{{type, Seconds(0.5)}}));
  EXPECT_EQ(workload.jobs[1].sampleTimes, (Times{{type, Seconds(2)}}));
  EXPECT_TRUE(workload.jobs[2].sampleTimes.empty()); // without GPUs
  for (auto [matrix, message] :
       {std::pair("{A10: {TYPE: 1}}",
                  "jobs.trace:3:1: error: [HP1216] the matrix of speeds has no row for the GPU "
                  "model 'H800', nor '*'"),
        {"[1]", "speeds:1:1: error: [HP1007] a matrix of speeds must be a mapping"},
        {"{A10: 2}", "speeds:1:7: error: [HP1007] the speeds of 'A10' must be a mapping"},
        {"{A10: {TYPE: fast}}", "speeds:1:13: error: [HP1007] speed of 'A10' on TYPE"},
        {"{A10: {TYPE: 0}}", "speeds:1:13: error: [HP1216] speed of 'A10' on TYPE is 0"},
        {"{A10: {k80: 1}}", "speeds:1:7: error: [HP1213] the speeds of 'A10' are of no GPU"}}) {
    auto with = [&](std::string text) {
      for (size_t at = text.find("TYPE"); at != std::string::npos; at = text.find("TYPE"))
        text.replace(at, 4, type);
      return text;
    };
    std::string error = trace.errorOf("alibaba", text, with(matrix));
    EXPECT_EQ(error.find(with(message)), 0u) << error;
  }
}

TEST(JobsTraces, HeliosTellsGpusCoresAndTimes) {
  Trace trace;
  std::string header = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,"
                       "end_time,duration,queue\n";
  jobs::Workload workload = llvm::cantFail(trace.read(
      "helios", header +
                    "7,u1,vc1,2,8,1,COMPLETED,2020-04-02 00:01:00,2020-04-02 00:02:00,x,100,60\n"
                    "8,u1,vc1,0,4,1,COMPLETED,2020-04-02 00:00:00,2020-04-02 00:00:00,x,50,0\n"
                    "9,u1,vc1,8,32,1,CANCELLED,2020-04-02 00:03:00,2020-04-02 00:03:00,x,0,0\n"));
  ASSERT_EQ(workload.jobs.size(), 2u); // one never ran
  EXPECT_EQ(workload.jobs[0].name, "7");
  EXPECT_EQ(workload.jobs[0].arrival, 1); // a slot has a minute
  EXPECT_EQ(workload.jobs[0].batch, 2);
  EXPECT_EQ(workload.jobs[0].work(), 200);
  EXPECT_EQ(workload.jobs[0].worker, (jobs::Demand{4000, 0, 1}));
  EXPECT_EQ(workload.jobs[1].worker, (jobs::Demand{4000, 0, 0}));
  for (const char *day : {"2021-02-29", "1900-01-01", "2020-04-31", "2020-00-10", "2020-13-01"}) {
    std::string date = header + "7,u,v,2,8,1,C," + day + " 00:00:00,,,100,60\n";
    EXPECT_NE(trace.errorOf("helios", date).find("must be a time"), std::string::npos) << day;
  }
  std::string wrong = trace.errorOf("helios", header + "7,u,v,2,8,1,C,yesterday,,,100,60\n");
  EXPECT_EQ(wrong.find("jobs.trace:2:15: error: [HP1216] submit_time is 'yesterday'"), 0u) << wrong;
  std::string other = trace.errorOf("helios", "job_id,gpu_num,cpu_num,submitted,duration\n");
  EXPECT_NE(other.find("the header has no column 'submit_time'"), std::string::npos) << other;
  EXPECT_NE(other.find("expected: cluster_log.csv of Helios"), std::string::npos) << other;
}

TEST(JobsTraces, googleTellsTasksAndShares) {
  Trace trace;
  jobs::Workload workload =
      llvm::cantFail(trace.read("google", "0,,7,0,,0,u,2,9,0.5,0.25,0\n"
                                          "1000000,,7,0,,1,u,2,9,0.5,0.25,0\n"
                                          "2000000,,7,1,,1,u,2,9,0.5,0.25,0\n"
                                          "61000000,,7,0,,4,u,2,9,0.5,0.25,0\n"
                                          "5000000,,8,0,,1,u,2,9,0.5,0.25,0\n"));
  ASSERT_EQ(workload.jobs.size(), 1u);
  EXPECT_EQ(workload.jobs[0].work(), 120); // two tasks of a minute
  EXPECT_EQ(workload.jobs[0].priority, 9);
  EXPECT_EQ(workload.jobs[0].worker, (jobs::Demand{4000, 8e9, 0}));
}

TEST(JobsTraces, googleOf2019TellsInstancesAndShares) {
  Trace trace;
  auto event = [](const char *time, int type, int instance) {
    return std::string("{\"time\": \"") + time + "\", \"type\": \"" + std::to_string(type) +
           "\", \"collection_id\": \"7\", \"instance_index\": " + std::to_string(instance) +
           ", \"priority\": \"200\", \"resource_request\": {\"cpus\": 0.5, \"memory\": 0.25}}\n";
  };
  jobs::Workload workload = llvm::cantFail(
      trace.read("google", event("0", 0, 0) + event("1000000", 3, 0) + event("2000000", 3, 1) +
                               "\n" + event("61000000", 6, 0)));
  ASSERT_EQ(workload.jobs.size(), 1u);
  EXPECT_EQ(workload.jobs[0].name, "7");
  EXPECT_EQ(workload.jobs[0].work(), 120); // two instances of a minute
  EXPECT_EQ(workload.jobs[0].priority, 200);
  EXPECT_EQ(workload.jobs[0].worker, (jobs::Demand{4000, 8e9, 0}));
}

TEST(JobsTraces, googleErrorsNameTheLineAndTheForm) {
  Trace trace;
  auto error = [&](llvm::StringRef text) { return trace.errorOf("google", text); };
  std::string cut = error("{\"time\": \"0\",\n");
  EXPECT_EQ(cut.find("jobs.trace:1:1: error: [HP1003] the line is not JSON"), 0u) << cut;
  EXPECT_NE(cut.find("instance events of 2019"), std::string::npos);
  EXPECT_EQ(error("{\"time\": \"0\", \"type\": \"0\"}\n")
                .find("jobs.trace:1:1: error: [HP1003] the event has no 'collection_id'"),
            0u);
  EXPECT_NE(error("{\"time\": \"-1\"}").find("'time' is not a whole number"), std::string::npos);
  EXPECT_NE(error("{\"time\": 0, \"type\": 3, \"collection_id\": 7, \"instance_index\": 0, "
                  "\"priority\": 0, \"resource_request\": {\"cpus\": \"all\"}}")
                .find("'cpus' of resource_request"),
            std::string::npos);
  EXPECT_NE(error("1,2,3\n").find("task events of 2011"), std::string::npos);
}

TEST(JobsTraces, phillyTellsAttemptsAndTheirGpus) {
  Trace trace;
  jobs::Workload workload = llvm::cantFail(trace.read("philly", R"json([
{"jobid": "a", "vc": "x", "status": "Pass", "submitted_time": "2017-12-31 23:59:00", "user": "u",
 "attempts": [{"start_time": "2018-01-01 00:00:00", "end_time": "2018-01-01 00:00:10",
               "detail": [{"ip": "m1", "gpus": ["gpu0"]}]},
              {"start_time": "2018-01-01 00:01:00", "end_time": "2018-01-01 00:01:20",
               "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]}]},
{"jobid": "never", "submitted_time": "2018-01-01 00:00:00", "attempts": []},
{"jobid": "waits", "submitted_time": "2018-01-01 00:00:00",
 "attempts": [{"start_time": null, "end_time": "None", "detail": null}]},
{"jobid": "leap", "submitted_time": "2018-01-01 00:02:00",
 "attempts": [{"start_time": "2020-02-28 23:59:59", "end_time": "2020-03-01 00:00:00",
               "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]}])json"));
  ASSERT_EQ(workload.jobs.size(), 2u);
  EXPECT_EQ(workload.jobs[0].name, "a");
  EXPECT_EQ(workload.jobs[0].work(), 10 + 20 * 3);
  EXPECT_EQ(workload.jobs[0].batch, 3);
  EXPECT_EQ(workload.jobs[0].worker, (jobs::Demand{0, 0, 1}));
  EXPECT_EQ(workload.jobs[1].arrival, 3);
  EXPECT_EQ(workload.jobs[1].work(), 86401);
}

TEST(JobsTraces, phillyErrorsAreLocated) {
  Trace trace;
  auto error = [&](llvm::StringRef text) { return trace.errorOf("philly", text); };
  EXPECT_EQ(error("{}").find("jobs.trace:1:1: error: [HP1007] the job log must be a list"), 0u);
  EXPECT_EQ(error("[{\"jobid\": \"a\"}]").find("jobs.trace:1:2: error: [HP1004]"), 0u);
  EXPECT_EQ(error("[{\"jobid\": \"a\",\n\"submitted_time\": \"soon\", \"attempts\": []}]")
                .find("jobs.trace:2:19: error: [HP1007] submitted_time of job 'a'"),
            0u);
  EXPECT_NE(error("[{\"jobid\": \"a\", \"submitted_time\": null, \"attempts\": [[]]}]")
                .find("an attempt of job 'a' must be a mapping"),
            std::string::npos);
  std::string twice = "{\"jobid\": \"a\", \"submitted_time\": null, \"attempts\": []}";
  EXPECT_NE(error("[" + twice + ", " + twice + "]").find("[HP1103]"), std::string::npos);
}

TEST(JobsTraces, generatedWorkloadsAreTheSameForASeed) {
  Cluster cluster = twoGpuNodes();
  jobs::Machines machines(cluster);
  jobs::Workload a = generate(machines, {20, 50, Seconds(60), 3});
  jobs::Workload b = generate(machines, {20, 50, Seconds(60), 3});
  jobs::Workload c = generate(machines, {20, 50, Seconds(60), 4});
  ASSERT_EQ(a.jobs.size(), 20u);
  EXPECT_EQ(a.jobs[7].samples, b.jobs[7].samples);
  EXPECT_NE(a.jobs[7].samples, c.jobs[7].samples);
  EXPECT_TRUE(bool(jobs::Problem::create(machines, a)));
}
