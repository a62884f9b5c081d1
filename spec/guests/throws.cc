// C++: exceptions through many frames, destructors on the way, rethrowing, virtual calls, threads, containers.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static int alive, destroyed;

struct Guard {
  Guard() { alive++; }
  ~Guard() {
    alive--;
    destroyed++;
  }
};

struct Shape {
  virtual ~Shape() = default;
  virtual int area() const = 0;
};
struct Square : Shape {
  explicit Square(int s) : side(s) {}
  int area() const override { return side * side; }
  int side;
};
struct Strip : Shape {
  explicit Strip(int l) : length(l) {}
  int area() const override { return length; }
  int length;
};

__attribute__((noinline)) static int dive(int depth) {
  Guard guard;
  if (depth == 0) throw std::runtime_error("bottom");
  return dive(depth - 1) + 1;
}

__attribute__((noinline)) static int rethrow(int depth) {
  try {
    return dive(depth);
  } catch (const std::exception &e) {
    if (std::string(e.what()) != "bottom") return -1;
    throw depth;
  }
}

int main() {
  int caught = 0;
  for (int i = 0; i < 100; i++) {
    try {
      rethrow(i);
    } catch (int depth) {
      caught += depth;
    }
  }
  std::map<std::string, int> words;
  std::vector<std::unique_ptr<Shape>> shapes;
  for (int i = 0; i < 1000; i++) {
    words["w" + std::to_string(i % 37)] += i;
    if (i % 2) shapes.push_back(std::make_unique<Square>(i % 10));
    else shapes.push_back(std::make_unique<Strip>(i % 10));
  }
  int area = 0, in_thread = 0;
  for (const auto &shape : shapes) area += shape->area();
  std::thread other([&] {
    try {
      dive(10);
    } catch (...) {
      in_thread = 1;
    }
  });
  other.join();
  try {
    std::vector<int>().at(5);
  } catch (const std::out_of_range &) {
    in_thread++;
  }
  std::printf("%d %d %d %zu %d %d %d\n", caught, alive, destroyed, words.size(), words["w5"], area, in_thread);
  return 0;
}
