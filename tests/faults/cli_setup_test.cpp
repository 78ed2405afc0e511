#include <gtest/gtest.h>

#include <cstdlib>

#include "cli_process.h"

// scripts/setup.sh with made-up programs in place of the system's.
namespace talon::test::cli_setup_test {
namespace {

void add_program(const Folder& folder, const std::string& name, const std::string& lines) {
  const std::string file = folder.write(name, "#!/bin/sh\n" + lines + "\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
}

/// As sudo does, the one here hands on next to nothing of the environment.
TEST(Setup, InstallsThroughSudoWithoutQuestions) {
  const Folder programs, results;
  const std::string log = results.file("log"), notes = results.file("notes");
  add_program(programs, "id", "echo 1000");
  add_program(programs, "cargo", "echo cargo 1.96.0");
  add_program(programs, "dpkg-query",
              "case \"$*\" in *libedit-dev) exit 1 ;; esac; echo install ok installed");
  add_program(programs, "sudo", "exec env -i PATH=\"$PATH\" \"$@\"");
  add_program(programs, "apt-get", "echo \"$DEBIAN_FRONTEND $*\" >> '" + log + "'");
  const std::string command = "HOME=/nowhere PATH='" + programs.path().string() + "':\"$PATH\" '" +
                              TALON_TEST_DATA "/../../scripts/setup.sh' build 2> '" + notes + "'";
  EXPECT_EQ(std::system(command.c_str()), 0) << read_file(notes);
  const std::string done = read_file(log);
  EXPECT_NE(done.find("noninteractive update"), std::string::npos) << done;
  EXPECT_NE(done.find("noninteractive install"), std::string::npos) << done;
  EXPECT_NE(done.find("libedit-dev\n"), std::string::npos) << done;
}

}  // namespace
}  // namespace talon::test::cli_setup_test
