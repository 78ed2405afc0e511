#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "io/json.h"

// bench/peer.py and the table that bench/table.py makes of its lines, with programs that answer as
// Talon and llama.cpp do.

namespace talon::peer_forwards_test {
namespace {

namespace fs = std::filesystem;

/// `talon inspect` and `talon bench cost`: 5 ms a row.
constexpr const char* kFakeTalon = R"py(#!/usr/bin/env python3
import json, sys
if "inspect" in sys.argv:
    print(json.dumps({"processor": "p", "processors": 1, "memory_gib": 1, "last_level_cache_mib": 1,
                      "threads": 1, "commit": "c"}))
else:
    for rows in sys.argv[sys.argv.index("--rows") + 1].split(","):
        print(json.dumps({"rows": int(rows), "ms": 5 * int(rows)}))
    print(json.dumps({"bandwidth_gb_s": 1, "weights_bytes": 10}))
)py";

/// llama-batched-bench in a folder that is named by its milliseconds a row.
constexpr const char* kFakeBatchedBench = R"py(#!/usr/bin/env python3
import pathlib, sys
ms = int(pathlib.Path(sys.argv[0]).parent.name)
if "--version" in sys.argv:
    print(f"version: {ms} (abc)", file=sys.stderr)
else:
    for rows in 1, 8:
        print(f"| 4 | 16 | {rows} | 20 | 1 | 1 | {16 * rows * ms / 1000} | 1 | 1 | 1 |")
)py";

class PeerForwards : public testing::Test {
 protected:
  PeerForwards() {
    write("talon", kFakeTalon);
    write("10/llama-batched-bench", kFakeBatchedBench);
    write("20/llama-batched-bench", kFakeBatchedBench);
  }
  ~PeerForwards() override { fs::remove_all(folder_); }

  std::string file(const char* name) const { return (folder_ / name).string(); }
  void write(const char* name, const char* text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }
  /// The line of a run of one round; `also`: more builds.
  Json line_of(const std::string& also) const {
    const std::string command = "python3 " + script("peer.py") + " " + file("talon") + " " +
                                file("10") + " m.gguf --no-text --rounds 1 " + also + " --out " +
                                file("peer.jsonl") + " > " + file("said");
    EXPECT_EQ(std::system(command.c_str()), 0);
    return Json::parse(read("peer.jsonl"));
  }
  std::string table() const {
    const std::string bench = fs::path(script("peer.py")).parent_path().string();
    const std::string command =
        "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + bench +
        " python3 -c 'import pathlib, sys, table; print(\"\\n\".join(table.peer_table("
        "pathlib.Path(sys.argv[1]))))' " +
        file("peer.jsonl") + " > " + file("table");
    EXPECT_EQ(std::system(command.c_str()), 0);
    return read("table");
  }

 private:
  static std::string script(const char* name) {
    return (fs::path(TALON_PYTHON_PEER).parent_path() / name).string();
  }
  std::string read(const char* name) const {
    std::stringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(PeerForwards, OfOneBuildHaveTheNamesThatTheyAlwaysHad) {
  const Json line = line_of("");
  EXPECT_EQ(line["peer_ms_8"]["median"], 80);
  EXPECT_EQ(line["ratio_ms_8"]["median"], 2);
  EXPECT_EQ(line["engines"], Json({{"llama.cpp", "10 (abc)"}}));
  EXPECT_NE(table().find("\n| | Talon | llama.cpp | ratio |\n|---|---|---|---|\n"),
            std::string::npos);
}

TEST_F(PeerForwards, OfASecondBuildStandBesideThoseOfTheFirst) {
  const Json line = line_of("--also source=" + file("20"));
  EXPECT_EQ(line["peer_ms_8"]["median"], 80);
  EXPECT_EQ(line["ratio_ms_8"]["median"], 2);
  EXPECT_EQ(line["peer@source_ms_8"]["median"], 160);
  EXPECT_EQ(line["ratio@source_ms_1"]["median"], 4);
  EXPECT_EQ(line["engines"]["llama.cpp@source"], "20 (abc)");
  const std::string rows = table();
  EXPECT_NE(rows.find("\n| | Talon | llama.cpp | ratio | llama.cpp@source | ratio |\n"),
            std::string::npos)
      << rows;
  EXPECT_NE(rows.find("| 8.00 (8.00-8.00) | 8.00 (8.00-8.00) | | 8.00 (8.00-8.00) | |"),
            std::string::npos)
      << rows;
}

}  // namespace
}  // namespace talon::peer_forwards_test
