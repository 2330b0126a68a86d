<?php

declare(strict_types=1);

namespace RedisLease\Tests\Integration\Conformance;

use DistributedLock;
use RedisLease\Tests\Support\KeySlot;

/** Every non-empty byte string is a name, and names do not disturb one another. */
trait Names
{
    public function testEveryByteStringIsAName(): void
    {
        $names = [
            'a NUL' => "\0",
            'NULs within' => "a\0b\0",
            'not UTF-8' => "\xff\xfe\xc3\x28",
            'every byte' => implode('', array_map(chr(...), range(0, 255))),
            'a zero' => '0',
            'space and line ends' => " \r\n*3\r\n$3\r\n",
            'braces' => '{order}:42',
            'braces turned' => '}order{',
            'open' => '{',
            'close' => '}',
            'empty braces' => '{}',
            'a glob' => '*?[a-z]\\',
            'UTF-8' => 'заказ №42',
            '64 KiB' => str_repeat("k\xf0", 32768),
        ];
        foreach ($names as $what => $name) {
            $lock = $this->heldLock($name);

            self::assertSame($name, $lock->resource(), $what);
            self::assertSame([$lock->token()], array_values(array_unique($this->storedValues($name))), $what);
            self::assertFalse($this->lock($name)->acquire(), $what);
            self::assertTrue($lock->renew(), $what);
            self::assertTrue($lock->release(), $what);
            self::assertFalse($this->isStored($name), $what);
        }
    }

    public function testNamesThatDifferInOneByteAreDifferentLocks(): void
    {
        $held = [];
        foreach (['a', 'A', 'a ', ' a', "a\0", "a\n", '{a}', 'a}', '{a', 'a:', 'lock:a', "\xe1"] as $name) {
            $held[] = $this->heldLock($name);
        }
        foreach ($held as $lock) {
            self::assertOwner($lock);
            self::assertTrue($lock->release());
        }
    }

    public function testTheCompanionsOfALockShareItsSlotAndAreNoLocksForRandomNames(): void
    {
        $seed = random_int(0, PHP_INT_MAX);
        mt_srand($seed);
        for ($round = 0; $round < 100; $round++) {
            $name = self::randomName();
            $key = static::PREFIX . $name;
            $this->loseAllData();
            $lock = $this->heldLock($name);
            $this->lock($name)->acquire(0.002);
            $keys = array_map(strval(...), array_keys($this->allKeys()));

            $context = sprintf('seed %d round %d name %s', $seed, $round, bin2hex($name));
            self::assertContains($key, $keys, $context);
            foreach ($keys as $companion) {
                if ($companion !== $key) {
                    // Under the prefix without its last byte, so that one ACL pattern covers them all, and
                    // not under the whole prefix, so that no resource gives a lock of that name.
                    self::assertStringStartsWith(substr(static::PREFIX, 0, -1) . '~', $companion, $context);
                }
                self::assertSame(KeySlot::of($key), KeySlot::of($companion), $context . ' key ' . bin2hex($companion));
            }
            self::assertTrue($lock->release(), $context);
        }
    }

    public function testALockNamedAfterAnothersCompanionsTakesNothingFromIt(): void
    {
        foreach (['a', '{a}', 'a{b}c', '{', '}', '{}', "\0"] as $name) {
            $this->loseAllData();
            $lock = $this->heldLock($name);
            $this->lock($name)->acquire(0.002);
            $companions = array_diff(array_map(strval(...), array_keys($this->allKeys())), [static::PREFIX . $name]);
            self::assertNotSame([], $companions, 'the fence has to be remembered somewhere');

            // As the key's whole text, and so that prefix and name together give it, if any name does.
            foreach ($companions as $companion) {
                foreach ([0, strlen(static::PREFIX) - 1, strlen(static::PREFIX)] as $from) {
                    $namesake = $this->heldLock(substr($companion, $from));
                    self::assertOwner($lock);
                    self::assertTrue($lock->renew(), "$companion disturbs $name");
                    self::assertTrue($lock->release(), "$companion disturbs $name");
                    self::assertTrue($lock->acquire(), "$companion keeps $name");
                    self::assertOwner($namesake);
                    self::assertTrue($namesake->release());
                }
            }
            self::assertTrue($lock->release());
        }
    }

    public function testThePrefixSeparatesApplications(): void
    {
        $resource = $this->resource();
        $ours = $this->heldLock($resource);
        foreach (['other:', '', "\0\xff{", 'lock::'] as $prefix) {
            $theirs = new DistributedLock($resource, 30.0, connection: $this->connection($prefix));

            self::assertTrue($theirs->acquire(), 'prefix ' . bin2hex($prefix));
            self::assertSame([$theirs->token()], array_values(array_unique(
                $this->onEachServer('GET', $prefix . $resource),
            )));
            self::assertTrue($theirs->release());
        }
        self::assertOwner($ours);
    }

    /** Braces are frequent, since it is they that decide about the slot. */
    private static function randomName(): string
    {
        $alphabet = ['{', '}', '{', '}', ':', 'a', 'b', "\0", "\xff", null, null];
        $name = '';
        for ($length = mt_rand(1, 24); $length > 0; $length--) {
            $name .= $alphabet[mt_rand(0, count($alphabet) - 1)] ?? chr(mt_rand(0, 255));
        }

        return $name;
    }
}
