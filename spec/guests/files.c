// Files and directories: open flags, read/write/seek/vectors, stat in its forms, links, renames, listing,
// permissions, times, truncation, locks, errors. Everything happens in the current directory.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "guest.h"

static void test_io(void) {
  int fd = open("file", O_RDWR | O_CREAT | O_EXCL, 0640);
  CHECK(fd >= 3);
  CHECK(open("file", O_RDWR | O_CREAT | O_EXCL, 0640) == -1 && errno == EEXIST);
  struct iovec parts[3] = {{"one ", 4}, {"", 0}, {"two", 3}};
  CHECK(writev(fd, parts, 3) == 7);
  CHECK(lseek(fd, -3, SEEK_END) == 4);
  char text[16] = "";
  CHECK(read(fd, text, 16) == 3 && strcmp(text, "two") == 0);
  CHECK(pwrite(fd, "TWO", 3, 4) == 3 && pread(fd, text, 3, 4) == 3 && memcmp(text, "TWO", 3) == 0);
  char a[3], b[8];
  struct iovec into[2] = {{a, 3}, {b, 8}};
  CHECK(preadv(fd, into, 2, 0) == 7 && memcmp(b, " TWO", 4) == 0);
  CHECK(ftruncate(fd, 100) == 0 && lseek(fd, 0, SEEK_END) == 100);
  CHECK(lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL);
  CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  CHECK(fcntl(fd, F_SETLK, &lock) == 0);
  CHECK(fcntl(fd, F_GETFL) == (O_RDWR | (fcntl(fd, F_GETFL) & ~O_ACCMODE)));
  CHECK(posix_fallocate(fd, 0, 200) == 0);
  CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);
  close(fd);
  fd = open("file", O_WRONLY | O_APPEND);
  CHECK(write(fd, "end", 3) == 3 && lseek(fd, 0, SEEK_CUR) == 203);
  CHECK(read(fd, text, 1) == -1 && errno == EBADF);
  close(fd);
  CHECK(open("missing", O_RDONLY) == -1 && errno == ENOENT);
  CHECK(open("file/x", O_RDONLY) == -1 && errno == ENOTDIR);
  CHECK(open(".", O_WRONLY) == -1 && errno == EISDIR);
}

static void test_stat(void) {
  struct stat st, other;
  CHECK(stat("file", &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0640);
  CHECK(st.st_size == 203 && st.st_nlink == 1 && st.st_uid == geteuid() && st.st_blksize > 0);
  CHECK(st.st_mtim.tv_sec > 1600000000);
  CHECK(chmod("file", 0600) == 0 && link("file", "hard") == 0 && symlink("file", "soft") == 0);
  CHECK(stat("hard", &other) == 0 && other.st_ino == st.st_ino && other.st_nlink == 2);
  CHECK((other.st_mode & 0777) == 0600);
  CHECK(lstat("soft", &st) == 0 && S_ISLNK(st.st_mode) && st.st_size == 4);
  char text[16] = "";
  CHECK(readlink("soft", text, 16) == 4 && strcmp(text, "file") == 0);
  struct statx sx;
  CHECK(statx(AT_FDCWD, "file", 0, STATX_BASIC_STATS, &sx) == 0 && sx.stx_size == 203 && sx.stx_ino == other.st_ino);
  CHECK(access("file", R_OK | W_OK) == 0);
  CHECK(faccessat(AT_FDCWD, "missing", F_OK, 0) == -1 && errno == ENOENT);
  struct timespec times[2] = {{1000000000, 5}, {1000000001, 7}};
  CHECK(utimensat(AT_FDCWD, "file", times, 0) == 0);
  CHECK(stat("file", &st) == 0 && st.st_atim.tv_nsec == 5 && st.st_mtim.tv_sec == 1000000001);
  struct statvfs fs;
  CHECK(statvfs(".", &fs) == 0 && fs.f_bsize > 0);
  mode_t old = umask(077);
  CHECK(umask(old) == 077);
}

static void test_directories(void) {
  CHECK(mkdir("dir", 0755) == 0 && mkdir("dir", 0755) == -1 && errno == EEXIST);
  int dir = open("dir", O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 200; i++) {
    char name[32];
    snprintf(name, sizeof name, "entry-%03d", i);
    int fd = openat(dir, name, O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0);
    close(fd);
  }
  DIR *listing = opendir("dir");
  int seen = 0, sum = 0;
  for (struct dirent *entry; (entry = readdir(listing));) {
    if (entry->d_name[0] == '.') continue;
    CHECK(entry->d_type == DT_REG);
    seen++;
    sum += atoi(entry->d_name + 6);
  }
  closedir(listing);
  CHECK(seen == 200 && sum == 199 * 100);
  CHECK(rmdir("dir") == -1 && errno == ENOTEMPTY);
  CHECK(renameat(dir, "entry-000", AT_FDCWD, "moved") == 0 && access("moved", F_OK) == 0);
  for (int i = 1; i < 200; i++) {
    char name[32];
    snprintf(name, sizeof name, "entry-%03d", i);
    CHECK(unlinkat(dir, name, 0) == 0);
  }
  char before[PATH_MAX], after[PATH_MAX];
  CHECK(getcwd(before, sizeof before) && fchdir(dir) == 0 && getcwd(after, sizeof after));
  CHECK(strncmp(before, after, strlen(before)) == 0 && strcmp(after + strlen(before), "/dir") == 0);
  CHECK(chdir("..") == 0);
  close(dir);
  CHECK(rmdir("dir") == 0);
}

int main(void) {
  test_io();
  test_stat();
  test_directories();
  CHECK(rename("hard", "renamed") == 0 && unlink("renamed") == 0 && unlink("soft") == 0);
  CHECK(unlink("file") == 0 && unlink("file") == -1 && errno == ENOENT && unlink("moved") == 0);
  return guest_verdict();
}
